"""Does the entity layer help?"""
