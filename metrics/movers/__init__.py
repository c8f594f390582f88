"""Word mover's, sentence mover's, and sentence and word mover's similarity: one algorithm, three bags.

A text is a bag of points with masses: its words, its sentences, or both. The similarity of two texts is
exp(-EMD) over Euclidean distances (Clark, Celikyilmaz and Smith 2019, Eqs. 1 to 5). The scorers in `wms`,
`sms` and `s_wms` only say which bag it is. Points come from static word vectors or from a contextual encoder.
"""
