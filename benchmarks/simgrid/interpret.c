/* Runs a message program under SMPI and prints when every rank passes its marks.
 *
 * usage: interpret PROGRAM RANKS_BUFFER_BYTES
 *
 * A program is text, one line a rank ("3: send 0 7 1024; mark") or for all ranks ("*: barrier; mark"); the language
 * is labkit's too (labkit/sim/message_program.py), so that both simulators run the very same text:
 *   sleep NS                      send|ssend DST TAG BYTES        recv SRC TAG BYTES
 *   isend|issend SLOT DST TAG BYTES   irecv SLOT SRC TAG BYTES    wait SLOT
 *   waitall SLOT SLOT ...         waitany SLOT SLOT ...           test SLOT (until it is done)
 *   sendrecv DST TAG BYTES SRC TAG BYTES                          wtime (costs what MPI_Wtime costs)
 *   compute NS (on a core of its own)
 *   allreduce BYTES   alltoall|alltoall_bruck|alltoall_linear|allgather BYTES (per block)   bcast BYTES ROOT   mark
 * and, of communicator.py only:
 *   until NS (of the clock)      iprobe SRC TAG (until there is one)
 *   comm SLOT RANK RANK ...  the members' communicator; OP@SLOT is a collective of it
 *   scan|exscan BYTES     gatherv|scatterv BYTES STEP ROOT     allgatherv|alltoallv BYTES STEP
 *     (the block of rank r is BYTES + STEP * r; from i to j of alltoallv BYTES + STEP * ((i + 2 j) mod p))
 * SRC and TAG may be -1: any. Every mark prints "rank index time" with 17 digits; it reads SimGrid's clock for free.
 */
#include <mpi.h>
#include <simgrid/actor.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SLOTS = 4096, MAX_MARKS = 4096, MAX_COMMS = 16, MAX_RANKS = 4096 };

typedef struct {
  int rank, size;
  char *out, *in;
  MPI_Request *slots;
  MPI_Comm comms[MAX_COMMS];
  double *marks;
  int n_marks;
} State;

static int any_source(int s) { return s < 0 ? MPI_ANY_SOURCE : s; }
static int any_tag(int t) { return t < 0 ? MPI_ANY_TAG : t; }

static long next(char **save) {
  char *word = strtok_r(NULL, " ", save);
  if (!word) {
    fprintf(stderr, "interpret: an operand is missing\n");
    abort();
  }
  return atol(word);
}

static void wait_many(State *s, char **save, int any) {
  MPI_Request list[MAX_SLOTS];
  int index[MAX_SLOTS], n = 0, done;
  char *word;
  while ((word = strtok_r(NULL, " ", save))) {
    index[n] = atoi(word);
    list[n] = s->slots[index[n]];
    n++;
  }
  if (any)
    MPI_Waitany(n, list, &done, MPI_STATUS_IGNORE);
  else
    MPI_Waitall(n, list, MPI_STATUSES_IGNORE);
  for (int i = 0; i < n; i++) s->slots[index[i]] = list[i];
}

static void send_or_receive(State *s, const char *op, char **save) {
  int slot = op[0] == 'i' ? (int)next(save) : -1;
  int peer = (int)next(save), tag = (int)next(save), bytes = (int)next(save);
  MPI_Request *request = slot < 0 ? NULL : &s->slots[slot];
  if (!strcmp(op, "send")) MPI_Send(s->out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
  else if (!strcmp(op, "ssend")) MPI_Ssend(s->out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
  else if (!strcmp(op, "isend")) MPI_Isend(s->out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request);
  else if (!strcmp(op, "issend")) MPI_Issend(s->out, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, request);
  else if (!strcmp(op, "recv"))
    MPI_Recv(s->in, bytes, MPI_BYTE, any_source(peer), any_tag(tag), MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Irecv(s->in, bytes, MPI_BYTE, any_source(peer), any_tag(tag), MPI_COMM_WORLD, request);
}

/* The first word of the name says what; which algorithm, the options of smpirun say. */
static int is(const char *op, const char *what) { return !strncmp(op, what, strlen(what)); }

typedef struct {
  int *counts, *starts, total;
} Blocks;

static Blocks blocks_of(int size, long bytes, long step, int self, int is_to) {
  Blocks b = {malloc(size * sizeof(int)), malloc(size * sizeof(int)), 0};
  for (int r = 0; r < size; r++) {
    long times = is_to < 0 ? r : is_to ? (self + 2 * r) % size : (r + 2 * self) % size;
    b.counts[r] = (int)(bytes + step * times);
    b.starts[r] = b.total;
    b.total += b.counts[r];
  }
  return b;
}

static void forget(Blocks b) {
  free(b.counts);
  free(b.starts);
}

static void of_unequal_blocks(const char *op, char **save, MPI_Comm comm) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  long bytes = next(save), step = next(save);
  int is_all = is(op, "alltoall"), root = is(op, "gatherv") || is(op, "scatterv") ? (int)next(save) : 0;
  Blocks to = blocks_of(size, bytes, step, rank, is_all ? 1 : -1), from = blocks_of(size, bytes, step, rank, is_all ? 0 : -1);
  char *out = calloc(1, to.total + 1), *in = calloc(1, from.total + 1);
  if (is_all)
    MPI_Alltoallv(out, to.counts, to.starts, MPI_BYTE, in, from.counts, from.starts, MPI_BYTE, comm);
  else if (is(op, "allgatherv"))
    MPI_Allgatherv(out, to.counts[rank], MPI_BYTE, in, from.counts, from.starts, MPI_BYTE, comm);
  else if (is(op, "gatherv"))
    MPI_Gatherv(out, to.counts[rank], MPI_BYTE, in, from.counts, from.starts, MPI_BYTE, root, comm);
  else
    MPI_Scatterv(out, to.counts, to.starts, MPI_BYTE, in, from.counts[rank], MPI_BYTE, root, comm);
  free(out);
  free(in);
  forget(to);
  forget(from);
}

static void with_blocks_of_all(State *s, const char *op, int bytes, int root, MPI_Comm comm) {
  int size; /* p^2 blocks in all need memory in common */
  MPI_Comm_size(comm, &size);
  char *all_out = SMPI_SHARED_MALLOC((size_t)bytes * size + 1), *all_in = SMPI_SHARED_MALLOC((size_t)bytes * size + 1);
  if (is(op, "alltoall")) MPI_Alltoall(all_out, bytes, MPI_BYTE, all_in, bytes, MPI_BYTE, comm);
  else if (is(op, "allgather")) MPI_Allgather(s->out, bytes, MPI_BYTE, all_in, bytes, MPI_BYTE, comm);
  else if (is(op, "gather")) MPI_Gather(s->out, bytes, MPI_BYTE, all_in, bytes, MPI_BYTE, root, comm);
  else MPI_Scatter(all_out, bytes, MPI_BYTE, s->in, bytes, MPI_BYTE, root, comm);
  SMPI_SHARED_FREE(all_out);
  SMPI_SHARED_FREE(all_in);
}

static void collective(State *s, const char *op, char **save) {
  const char *at = strchr(op, '@');
  MPI_Comm comm = at ? s->comms[atoi(at + 1)] : MPI_COMM_WORLD;
  if (is(op, "barrier")) {
    MPI_Barrier(comm);
    return;
  }
  if (is(op, "gatherv") || is(op, "scatterv") || is(op, "allgatherv") || is(op, "alltoallv")) {
    of_unequal_blocks(op, save, comm);
    return;
  }
  int bytes = (int)next(save);
  /* of "reduce_scatter" the first word is "reduce", too */
  int root = is(op, "bcast") || is(op, "gather") || is(op, "scatter") || is(op, "reduce_binomial") ||
                     is(op, "reduce_linear")
                 ? (int)next(save)
                 : 0;
  if (is(op, "allreduce")) {
    MPI_Allreduce(s->out, s->in, bytes, MPI_BYTE, MPI_BOR, comm);
  } else if (is(op, "bcast")) {
    MPI_Bcast(s->out, bytes, MPI_BYTE, root, comm);
  } else if (is(op, "reduce_scatter_block")) {
    int size;
    MPI_Comm_size(comm, &size);
    char *all_out = calloc(size, bytes + 1);
    MPI_Reduce_scatter_block(all_out, s->in, bytes, MPI_BYTE, MPI_BOR, comm);
    free(all_out);
  } else if (is(op, "reduce")) {
    MPI_Reduce(s->out, s->in, bytes, MPI_BYTE, MPI_BOR, root, comm);
  } else if (is(op, "scan")) {
    MPI_Scan(s->out, s->in, bytes, MPI_BYTE, MPI_BOR, comm);
  } else if (is(op, "exscan")) {
    MPI_Exscan(s->out, s->in, bytes, MPI_BYTE, MPI_BOR, comm);
  } else {
    with_blocks_of_all(s, op, bytes, root, comm);
  }
}

/* nanosleep would cut to whole nanoseconds. */
static void pause_until(double at_s) {
  double left_s = at_s - simgrid_get_clock();
  if (left_s > 0) sg_actor_sleep_for(left_s);
}

static void make_comm(State *s, char **save) {
  int slot = (int)next(save), n = 0;
  int members[MAX_RANKS];
  char *word;
  while ((word = strtok_r(NULL, " ", save))) members[n++] = atoi(word);
  MPI_Group all, some;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, n, members, &some);
  MPI_Comm_create_group(MPI_COMM_WORLD, some, slot, &s->comms[slot]);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
}

static void run(State *s, char *op) {
  char *save = NULL, *name = strtok_r(op, " ", &save);
  if (!name) return;
  if (!strcmp(name, "sleep")) {
    long ns = next(&save);
    struct timespec t = {ns / 1000000000L, ns % 1000000000L};
    nanosleep(&t, NULL);
  } else if (!strcmp(name, "until")) {
    pause_until((double)next(&save) * 1e-9);
  } else if (!strcmp(name, "iprobe")) {
    int source = (int)next(&save), tag = (int)next(&save);
    for (int flag = 0; !flag;)
      MPI_Iprobe(any_source(source), any_tag(tag), MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  } else if (!strcmp(name, "comm")) {
    make_comm(s, &save);
  } else if (!strcmp(name, "compute")) {
    smpi_execute_flops(1e-9 * next(&save) * sg_host_get_speed(sg_host_self()));
  } else if (!strcmp(name, "mark")) {
    s->marks[s->n_marks++] = simgrid_get_clock();
  } else if (!strcmp(name, "wtime")) {
    (void)MPI_Wtime();
  } else if (!strcmp(name, "wait")) {
    MPI_Wait(&s->slots[next(&save)], MPI_STATUS_IGNORE);
  } else if (!strcmp(name, "test")) {
    long slot = next(&save);
    for (int flag = 0; !flag;) MPI_Test(&s->slots[slot], &flag, MPI_STATUS_IGNORE);
  } else if (!strcmp(name, "waitall") || !strcmp(name, "waitany")) {
    wait_many(s, &save, name[4] == 'a' && name[5] == 'n');
  } else if (!strcmp(name, "sendrecv")) {
    int dst = (int)next(&save), stag = (int)next(&save), out = (int)next(&save);
    int src = (int)next(&save), rtag = (int)next(&save), in = (int)next(&save);
    MPI_Sendrecv(s->out, out, MPI_BYTE, dst, stag, s->in, in, MPI_BYTE, any_source(src), any_tag(rtag),
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (strstr(name, "send") || strstr(name, "recv")) {
    send_or_receive(s, name, &save);
  } else {
    collective(s, name, &save);
  }
}

/* The rank's own line of the file, or the line of all. */
static char *own_line(const char *path, int rank) {
  FILE *file = fopen(path, "r");
  char *line = NULL, *found = NULL;
  size_t room = 0;
  if (!file) {
    perror(path);
    abort();
  }
  while (getline(&line, &room, file) > 0)
    if (line[0] == '*' || (line[0] >= '0' && line[0] <= '9' && atoi(line) == rank)) {
      free(found);
      found = strdup(strchr(line, ':') + 1);
      if (line[0] != '*') break;
    }
  fclose(file);
  free(line);
  if (found) found[strcspn(found, "\n")] = 0;
  return found;
}

int main(int argc, char **argv) {
  State s = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &s.size);
  s.out = calloc(1, (size_t)atol(argv[2]));
  s.in = calloc(1, (size_t)atol(argv[2]));
  s.slots = malloc(MAX_SLOTS * sizeof *s.slots);
  for (int i = 0; i < MAX_SLOTS; i++) s.slots[i] = MPI_REQUEST_NULL;
  s.marks = malloc(MAX_MARKS * sizeof *s.marks);
  char *program = own_line(argv[1], s.rank), *save = NULL;
  if (program)
    for (char *op = strtok_r(program, ";", &save); op; op = strtok_r(NULL, ";", &save)) run(&s, op);
  for (int i = 0; i < s.n_marks; i++) printf("@ %d %d %.17g\n", s.rank, i, s.marks[i]);
  free(program);
  free(s.out);
  free(s.in);
  free(s.slots);
  free(s.marks);
  MPI_Finalize();
  return 0;
}
