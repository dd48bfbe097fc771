"""The language of expectations: text is read into sums of products with exact exponents."""
