"""Tuning at run time: requests that search, decide and produce inside the user's own program.

After the Abstract Data and Communication Library (ADCL): codelets with attributes (`codelets`), searches
(`search`), estimators under outliers (`estimators`), requests and their timing (`request`, `timer`), history
(`history`), and how good decisions are (`quality`).
"""
