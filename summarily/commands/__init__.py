"""The commands of `summarily` whose parsers must not import what they run."""
