/* One-sided communication of SMPI: one_sided WHAT BYTES REPEATS LATE_S
 *
 * Before each repetition rank r sleeps for (7 r mod p) LATE_S. Printed for every rank: when it was through with each
 * repetition, in seconds of simulated time. Barriers and allgathers are chosen by smpirun's options. */
#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *what, const char *name) { return !strcmp(what, name); }

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char *what = argv[1];
  const int bytes = atoi(argv[2]), repeats = atoi(argv[3]);
  const double late_s = atof(argv[4]) * ((rank * 7) % size);
  char *memory = calloc(2, bytes + 8), *mine = calloc(2, bytes + 8);
  long one = 1, before = 0, zero = 0;
  double *marks = calloc(repeats, sizeof(double));
  MPI_Win win;
  MPI_Group world, others;
  MPI_Win_create(memory, 2 * (bytes + 8), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size, peer = 1 - rank;
  const int ends[2] = {left < right ? left : right, left < right ? right : left};
  MPI_Group_incl(world, left == right ? 1 : 2, ends, &others);
  const int is_active = is(what, "fence_halo") || is(what, "fence_get") || is(what, "pscw");
  if (is(what, "fence_halo") || is(what, "fence_get")) MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
  if (!is_active) MPI_Win_lock_all(0, win);
  for (int i = 0; i < repeats; i++) {
    if (late_s > 0) sg_actor_sleep_for(late_s);
    if (is(what, "put_pingpong") || is(what, "get_pingpong") || is(what, "fop_pingpong") || is(what, "cas_pingpong")) {
      for (int turn = 0; turn < 2; turn++) {
        if (turn == rank) {
          if (is(what, "put_pingpong")) MPI_Put(mine, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, win);
          if (is(what, "get_pingpong")) MPI_Get(mine, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, win);
          if (is(what, "fop_pingpong")) MPI_Fetch_and_op(&one, &before, MPI_LONG, peer, 0, MPI_SUM, win);
          if (is(what, "cas_pingpong")) MPI_Compare_and_swap(&one, &zero, &before, MPI_LONG, peer, 0, win);
          MPI_Win_flush(peer, win);
          MPI_Send(&one, 0, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        } else if (rank < 2) {
          MPI_Recv(&one, 0, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
      }
    }
    if (is(what, "fence_halo")) {
      MPI_Put(mine, bytes, MPI_BYTE, left, bytes, bytes, MPI_BYTE, win);
      MPI_Put(mine, bytes, MPI_BYTE, right, 0, bytes, MPI_BYTE, win);
      MPI_Win_fence(0, win);
    }
    if (is(what, "fence_get")) {
      MPI_Get(mine, bytes, MPI_BYTE, left, 0, bytes, MPI_BYTE, win);
      MPI_Get(mine + bytes, bytes, MPI_BYTE, right, bytes, bytes, MPI_BYTE, win);
      MPI_Win_fence(0, win);
    }
    if (is(what, "pscw")) {
      MPI_Win_post(others, 0, win);
      MPI_Win_start(others, 0, win);
      MPI_Put(mine, bytes, MPI_BYTE, left, bytes, bytes, MPI_BYTE, win);
      MPI_Put(mine, bytes, MPI_BYTE, right, 0, bytes, MPI_BYTE, win);
      MPI_Win_complete(win);
      MPI_Win_wait(win);
    }
    if (is(what, "counter")) MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, win);
    if (is(what, "accumulate")) MPI_Accumulate(mine, bytes / 8, MPI_LONG, 0, 0, bytes / 8, MPI_LONG, MPI_SUM, win);
    if (is(what, "put_flush") && rank) {
      MPI_Put(mine, bytes, MPI_BYTE, 0, 0, bytes, MPI_BYTE, win);
      MPI_Win_flush(0, win);
    }
    if (is(what, "get_flush") && rank) {
      MPI_Get(mine, bytes, MPI_BYTE, 0, 0, bytes, MPI_BYTE, win);
      MPI_Win_flush(0, win);
    }
    marks[i] = simgrid_get_clock();
  }
  if (!is_active) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
  }
  MPI_Win_free(&win);
  printf("%d", rank);
  for (int i = 0; i < repeats; i++) printf(" %.17g", marks[i]);
  printf(" %.17g\n", simgrid_get_clock());
  MPI_Finalize();
  return 0;
}
