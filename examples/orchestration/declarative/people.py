"""A declarative pipeline of Spark 4.1 and newer whose sink is a graph: every batch is one commit, once."""

from pathlib import Path

from pyspark import pipelines as dp

from omnigraph import pipeline

HERE = Path(__file__).parent
spark = pipeline.session()  # the session of the pipeline, which knows the format `omnigraph` from now on

dp.create_sink("people", "omnigraph", {"path": str(HERE / "people.omni"), "type": "Person", "mode": "merge"})


@dp.append_flow(target="people")
def new_people():
    files = spark.readStream.schema("name string, age int").option("header", True).csv(str(HERE / "landing"))
    return files.where("age >= 18")
