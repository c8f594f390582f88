"""Does APES measure what it should?"""
