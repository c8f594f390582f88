"""The Space in which people compare two systems' summaries without knowing which is whose."""
