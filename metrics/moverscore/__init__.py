"""MoverScore: the cost of moving one text's n-grams to the other's, by contextual vectors."""
