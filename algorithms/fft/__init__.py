"""Fourier transforms of three-dimensional arrays that are distributed over ranks: each file is one algorithm.

The transform of an axis needs all of that axis on one rank. So the array is transposed between ranks, once or
twice, and the algorithms differ in who exchanges with whom.
"""
