"""Linear systems that are distributed over ranks: each file is one algorithm.

`cholesky` factorizes a dense matrix in block-cyclic distribution. The others are conjugate gradients:
functions ``name(comm, apply, b)``, where ``apply(v)`` returns this rank's part of A v, such as the
`labkit.datasets.matrices.Laplacian` does; A is symmetric and positive definite.
"""
