"""The same algorithms as a lecture writes them: at most 40 lines a file, no ties, no dtypes, no options.

``teaching/bcast/binomial.py`` is the readable form of ``bcast/binomial.py``; its function bears the file's
name and is a program of messages (``send``, ``recv`` and ``sendrecv`` of any objects; the sorts call mpi4py's
collectives). A form says what it needs and what it promises, and is tested for just that. It is never chosen
for a program's collectives: the registry lists these files by `labkit.registry.teaching_forms` only.
``lk.lecture("bcast", "binomial")`` shows a form beside the one that is used, and races the two.
"""
