/* The programs of host_time.py, in C for SimGrid's SMPI: peer PROGRAM NUMBER
 *
 *   start      nothing between MPI_Init and MPI_Finalize
 *   ring       NUMBER times: 8 B to the right, 8 B from the left, blocking
 *   allreduce  one MPI_Allreduce of NUMBER bytes
 *   alltoall   one MPI_Alltoall of NUMBER bytes a block; its buffers are memory in common, whose copies SMPI skips
 */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  int rank, size, number = argc > 2 ? atoi(argv[2]) : 0;
  const char *program = argc > 1 ? argv[1] : "start";
  double begin, end;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  begin = MPI_Wtime();
  if (!strcmp(program, "ring")) {
    double send = rank, receive = 0;
    for (int i = 0; i < number; i++) {
      MPI_Send(&send, 1, MPI_DOUBLE, (rank + 1) % size, 0, MPI_COMM_WORLD);
      MPI_Recv(&receive, 1, MPI_DOUBLE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (!strcmp(program, "allreduce")) {
    char *in = calloc(1, (size_t)number), *out = calloc(1, (size_t)number);
    MPI_Allreduce(in, out, number, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    free(in);
    free(out);
  } else if (!strcmp(program, "alltoall")) {
    char *in = SMPI_SHARED_MALLOC((size_t)number * size), *out = SMPI_SHARED_MALLOC((size_t)number * size);
    MPI_Alltoall(in, number, MPI_BYTE, out, number, MPI_BYTE, MPI_COMM_WORLD);
    SMPI_SHARED_FREE(in);
    SMPI_SHARED_FREE(out);
  }
  end = MPI_Wtime();
  if (rank == 0) printf("rank 0 took %.17g s\n", end - begin);
  MPI_Finalize();
  return 0;
}
