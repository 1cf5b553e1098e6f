"""What the parsers of both languages share: tokens with places, a cursor over them, escapes and limits of texts."""
