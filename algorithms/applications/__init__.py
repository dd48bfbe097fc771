"""Small applications, with the communication and the arithmetic of well-known codes.

Each is a function ``name(comm, size, charged=False)``; `size` is a class of the NAS Parallel Benchmarks
where the code has some. With ``charged=True`` the computation is charged, not carried out, and messages
have their sizes but no contents: thousands of ranks and large classes fit into one computer, and the
result holds no numbers.
"""
