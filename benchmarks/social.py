"""The social graph that the query benchmark asks about: a function of its size and a seed, and of nothing else.

Persons follow each other (ten times as many random follows as persons, and a few hubs with up to one in twenty of
everyone behind them), live in cities of states of countries, and have one to four interests.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

REF_DATE = dt.date(2025, 1, 1)
EPOCH = dt.date(1970, 1, 1)

INTERESTS = sorted(
    [
        "Photography",
        "Golf",
        "Fishing",
        "Tennis",
        "Swimming",
        "Hiking",
        "Cooking",
        "Art & Painting",
        "Singing",
        "Soccer",
        "Running",
        "Cycling",
        "Skiing",
        "Snowboarding",
        "Hunting",
        "Camping",
        "Sailing",
        "Museums",
        "Bowling",
        "Billiards",
        "Music",
        "Yoga",
        "Rowing",
        "Wine Tasting",
        "Kayaking",
        "Fine Dining",
        "Books",
        "Theater",
        "Paragliding",
        "Video games",
        "Anime",
        "Manga",
        "Comics",
        "Skydiving",
        "Surfing",
        "Scuba Diving",
        "Snorkeling",
        "Biking",
        "Horseback Riding",
        "Rock Climbing",
        "Gardening",
    ]
)

# country -> (number of cities, number of states, {state: [cities of >= 1M]})
PLACES = {
    "Canada": (
        427,
        13,
        {
            "Alberta": ["Calgary", "Edmonton"],
            "British Columbia": ["Vancouver"],
            "Ontario": ["Toronto"],
            "Quebec": ["Montreal"],
        },
    ),
    "United Kingdom": (
        1297,
        209,
        {"Birmingham": ["Birmingham"], "London, City of": ["London"], "Manchester": ["Manchester"]},
    ),
    "United States": (
        5393,
        51,
        {
            "Arizona": ["Phoenix"],
            "California": ["Los Angeles", "Riverside", "Sacramento", "San Diego", "San Francisco", "San Jose"],
            "Colorado": ["Denver"],
            "District of Columbia": ["Washington"],
            "Florida": ["Jacksonville", "Miami", "Orlando", "Tampa"],
            "Georgia": ["Atlanta"],
            "Illinois": ["Chicago"],
            "Indiana": ["Indianapolis"],
            "Kentucky": ["Louisville"],
            "Maryland": ["Baltimore"],
            "Massachusetts": ["Boston"],
            "Michigan": ["Detroit"],
            "Minnesota": ["Minneapolis"],
            "Missouri": ["Kansas City", "St. Louis"],
            "Nevada": ["Las Vegas"],
            "New York": ["Bronx", "Brooklyn", "Buffalo", "Manhattan", "New York", "Queens"],
            "North Carolina": ["Charlotte", "Raleigh"],
            "Ohio": ["Cincinnati", "Cleveland", "Columbus"],
            "Oregon": ["Portland"],
            "Pennsylvania": ["Philadelphia", "Pittsburgh"],
            "Rhode Island": ["Providence"],
            "Tennessee": ["Memphis", "Nashville"],
            "Texas": ["Austin", "Dallas", "Houston", "San Antonio"],
            "Utah": ["Salt Lake City"],
            "Virginia": ["Richmond", "Virginia Beach"],
            "Washington": ["Seattle"],
            "Wisconsin": ["Milwaukee"],
        },
    ),
}

FEMALE = [
    "Ada",
    "Alice",
    "Amy",
    "Anna",
    "Beth",
    "Carol",
    "Clara",
    "Diana",
    "Edith",
    "Ella",
    "Emma",
    "Eva",
    "Fiona",
    "Grace",
    "Hana",
    "Helen",
    "Iris",
    "Jane",
    "Julia",
    "Kate",
    "Laura",
    "Lena",
    "Lily",
    "Lucy",
    "Maria",
    "Mary",
    "Maya",
    "Nina",
    "Nora",
    "Olga",
    "Paula",
    "Rosa",
    "Ruth",
    "Sara",
    "Sofia",
    "Stella",
    "Tara",
    "Uma",
    "Vera",
    "Zoe",
]
MALE = [
    "Adam",
    "Alan",
    "Aron",
    "Ben",
    "Brian",
    "Carl",
    "Colin",
    "David",
    "Dean",
    "Eric",
    "Evan",
    "Felix",
    "Frank",
    "Gary",
    "Glen",
    "Hugo",
    "Ian",
    "Ivan",
    "Jack",
    "James",
    "Joel",
    "John",
    "Karl",
    "Kevin",
    "Leo",
    "Liam",
    "Mark",
    "Martin",
    "Neil",
    "Noah",
    "Omar",
    "Oscar",
    "Paul",
    "Peter",
    "Ravi",
    "Ryan",
    "Sam",
    "Simon",
    "Tom",
    "Victor",
]
LAST = [
    "Abbott",
    "Adler",
    "Allen",
    "Baker",
    "Barnes",
    "Bell",
    "Bishop",
    "Black",
    "Brandt",
    "Brooks",
    "Byrne",
    "Carey",
    "Castro",
    "Chen",
    "Clarke",
    "Cole",
    "Cooper",
    "Cruz",
    "Curtis",
    "Dalton",
    "Davies",
    "Diaz",
    "Dixon",
    "Doyle",
    "Drake",
    "Ellis",
    "Evans",
    "Farrell",
    "Fisher",
    "Flynn",
    "Ford",
    "Foster",
    "Fox",
    "Garcia",
    "Gibson",
    "Grant",
    "Gray",
    "Green",
    "Hale",
    "Hall",
    "Hardy",
    "Harris",
    "Hart",
    "Hayes",
    "Hicks",
    "Holt",
    "Hughes",
    "Hunt",
    "Irwin",
    "Jacobs",
    "James",
    "Jensen",
    "Jordan",
    "Kelly",
    "Kent",
    "Khan",
    "King",
    "Klein",
    "Lane",
    "Lewis",
    "Lloyd",
    "Lopez",
    "Lynch",
    "Mason",
    "Meyer",
    "Miles",
    "Moore",
    "Moran",
    "Morris",
    "Murphy",
    "Nash",
    "Newton",
    "Nolan",
    "Novak",
    "Owens",
    "Page",
    "Parker",
    "Patel",
    "Pearce",
    "Perry",
    "Powell",
    "Price",
    "Quinn",
    "Ramos",
    "Reed",
    "Reyes",
    "Riley",
    "Rossi",
    "Rowe",
    "Ryan",
    "Sato",
    "Shaw",
    "Silva",
    "Singh",
    "Stone",
    "Swift",
    "Tanner",
    "Todd",
    "Tran",
    "Tyler",
    "Vance",
    "Walsh",
    "Ward",
    "Watts",
    "Weber",
    "Webb",
    "West",
    "White",
    "Wolf",
    "Wood",
    "Wright",
    "Yang",
    "York",
    "Young",
    "Zhang",
]


def hub_edges(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    hubs = rng.choice(n, size=max(1, n * 5 // 1000), replace=False) + 1
    sizes = rng.integers(n * 5 // 1000, n * 5 // 100, size=len(hubs))
    src = np.concatenate([rng.choice(n, size=int(k), replace=False) + 1 for k in sizes])
    return src, np.repeat(hubs, sizes)


def dedup(src: np.ndarray, dst: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs without self-loops, ordered by (dst, src); ids are 0..n."""
    keep = src != dst
    code = np.unique(dst[keep].astype(np.int64) * (n + 1) + src[keep])
    return code % (n + 1), code // (n + 1)


def social(n: int, seed: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    t: dict[str, pa.Table] = {}

    female = np.zeros(n, bool)
    female[rng.choice(n, size=n - n // 2, replace=False)] = True
    first = np.where(
        female, np.array(FEMALE)[rng.integers(len(FEMALE), size=n)], np.array(MALE)[rng.integers(len(MALE), size=n)]
    )
    name = np.char.add(np.char.add(first, " "), np.array(LAST)[rng.integers(len(LAST), size=n)])
    last_day = (dt.date(2000, 12, 31) - EPOCH).days
    birthday = rng.integers(0, last_day + 1, size=n)
    t["nodes/persons"] = pa.table(
        {
            "id": pa.array(np.arange(1, n + 1)),
            "name": pa.array(name.tolist()),
            "gender": pa.array(np.where(female, "female", "male").tolist()),
            "birthday": pa.array(birthday.astype(np.int32)).cast(pa.date32()),
            "age": pa.array(((REF_DATE - EPOCH).days - birthday) // 365),
            "isMarried": pa.array(rng.random(n) < 0.5),
        }
    )

    cities, states, countries, city_in, state_in = [], [], [], [], []
    for country, (n_city, n_state, big) in PLACES.items():
        countries.append((len(countries) + 1, country))
        names = list(big) + [f"{country.split()[-1]} Region {i:03d}" for i in range(n_state - len(big))]
        big_rows = [(s, c, int(rng.integers(1_000_000, 20_000_000))) for s, cs in big.items() for c in cs]
        small = [
            (
                names[int(rng.integers(n_state))],
                f"{country.split()[-1]} Town {i:04d}",
                int(rng.integers(5_000, 1_000_000)),
            )
            for i in range(n_city - len(big_rows))
        ]
        ids = {}
        for s in names:
            states.append((len(states) + 1, s, country))
            ids[s] = len(states)
            state_in.append((ids[s], len(countries)))
        for s, c, pop in sorted(big_rows + small):
            cities.append(
                (
                    len(cities) + 1,
                    c,
                    s,
                    country,
                    round(float(rng.uniform(25, 60)), 4),
                    round(float(rng.uniform(-130, 1)), 4),
                    pop,
                )
            )
            city_in.append((len(cities), ids[s]))
    cols = list(zip(*cities, strict=True))
    t["nodes/cities"] = pa.table(
        {
            "id": pa.array(cols[0], pa.int64()),
            "city": cols[1],
            "state": cols[2],
            "country": cols[3],
            "lat": pa.array(cols[4]),
            "lng": pa.array(cols[5]),
            "population": pa.array(cols[6], pa.int32()),
        }
    )
    cols = list(zip(*states, strict=True))
    t["nodes/states"] = pa.table({"id": pa.array(cols[0], pa.int64()), "state": cols[1], "country": cols[2]})
    cols = list(zip(*countries, strict=True))
    t["nodes/countries"] = pa.table({"id": pa.array(cols[0], pa.int64()), "country": cols[1]})
    t["nodes/interests"] = pa.table({"id": pa.array(np.arange(1, len(INTERESTS) + 1)), "interest": INTERESTS})

    def edges(src, dst):
        return pa.table({"from": pa.array(src, pa.int64()), "to": pa.array(dst, pa.int64())})

    t["edges/city_in"] = edges(*map(list, zip(*city_in, strict=True)))
    t["edges/state_in"] = edges(*map(list, zip(*state_in, strict=True)))
    big_ids = np.array([c[0] for c in cities if c[6] >= 1_000_000])
    t["edges/lives_in"] = edges(np.arange(1, n + 1), big_ids[rng.integers(len(big_ids), size=n)])

    k = rng.integers(1, 5, size=n)
    rank = np.argsort(rng.random((n, len(INTERESTS))), axis=1)[:, :4] + 1
    mask = np.arange(4)[None, :] < k[:, None]
    src, dst = np.nonzero(mask)[0] + 1, rank[mask]
    order = np.lexsort((dst, src))
    t["edges/interested_in"] = edges(src[order], dst[order])

    s1, d1 = rng.integers(1, n + 1, size=(2, n * 10))
    s2, d2 = hub_edges(rng, n)
    t["edges/follows"] = edges(*dedup(np.concatenate([s1, s2]), np.concatenate([d1, d2]), n))
    return t
