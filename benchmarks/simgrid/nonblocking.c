/* One nonblocking collective of SMPI: nonblocking WHAT BYTES EARLIER_S DURING_S
 *
 * Rank r comes 7 r mod p times EARLIER_S late, starts the collective, sleeps for DURING_S and waits. Printed for
 * every rank: when it was through with the start, and with the wait, in seconds of simulated time. */
#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char *what = argv[1];
  const int bytes = atoi(argv[2]);
  const double late_s = atof(argv[3]) * ((rank * 7) % size), during_s = atof(argv[4]);
  char *out = calloc(size, bytes), *in = calloc(size, bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  if (late_s > 0) sg_actor_sleep_for(late_s);
  if (!strcmp(what, "Ibcast")) MPI_Ibcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  if (!strcmp(what, "Igather")) MPI_Igather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  if (!strcmp(what, "Iscatter")) MPI_Iscatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
  if (!strcmp(what, "Ialltoall")) MPI_Ialltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD, &request);
  const double started_s = simgrid_get_clock();
  if (during_s > 0) sg_actor_sleep_for(during_s);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  printf("%d %.17g %.17g\n", rank, started_s, simgrid_get_clock());
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
