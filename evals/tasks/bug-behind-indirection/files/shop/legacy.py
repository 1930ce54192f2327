"""Codes that the old order system wrote, and the ISO codes that they stand for."""

LEGACY_CODES = {
    "A": "AT",
    "CS": "CZ",
    "CH": "CZ",
    "D": "DE",
    "EL": "GR",
    "UK": "GB",
}
