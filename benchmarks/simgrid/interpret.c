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
 *   allreduce BYTES   alltoall|alltoall_bruck|alltoall_linear|allgather BYTES (per block)   bcast BYTES ROOT   mark
 * SRC and TAG may be -1: any. Every mark prints "rank index time" with 17 digits; it reads SimGrid's clock for free.
 */
#include <mpi.h>
#include <simgrid/engine.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SLOTS = 4096, MAX_MARKS = 4096 };

typedef struct {
  int rank, size;
  char *out, *in;
  MPI_Request *slots;
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

static void collective(State *s, const char *op, char **save) {
  if (is(op, "barrier")) {
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  int bytes = (int)next(save);
  /* of "reduce_scatter" the first word is "reduce", too */
  int root = is(op, "bcast") || is(op, "gather") || is(op, "scatter") || is(op, "reduce_binomial") ||
                     is(op, "reduce_linear")
                 ? (int)next(save)
                 : 0;
  if (is(op, "allreduce")) {
    MPI_Allreduce(s->out, s->in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  } else if (is(op, "bcast")) {
    MPI_Bcast(s->out, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
  } else if (is(op, "reduce_scatter_block")) {
    char *all_out = calloc(s->size, bytes);
    MPI_Reduce_scatter_block(all_out, s->in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    free(all_out);
  } else if (is(op, "reduce")) {
    MPI_Reduce(s->out, s->in, bytes, MPI_BYTE, MPI_BOR, root, MPI_COMM_WORLD);
  } else { /* blocks of all ranks, p^2 in all, need memory in common */
    char *all_out = SMPI_SHARED_MALLOC((size_t)bytes * s->size), *all_in = SMPI_SHARED_MALLOC((size_t)bytes * s->size);
    if (is(op, "alltoall")) MPI_Alltoall(all_out, bytes, MPI_BYTE, all_in, bytes, MPI_BYTE, MPI_COMM_WORLD);
    else if (is(op, "allgather")) MPI_Allgather(s->out, bytes, MPI_BYTE, all_in, bytes, MPI_BYTE, MPI_COMM_WORLD);
    else if (is(op, "gather")) MPI_Gather(s->out, bytes, MPI_BYTE, all_in, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    else MPI_Scatter(all_out, bytes, MPI_BYTE, s->in, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    SMPI_SHARED_FREE(all_out);
    SMPI_SHARED_FREE(all_in);
  }
}

static void run(State *s, char *op) {
  char *save = NULL, *name = strtok_r(op, " ", &save);
  if (!name) return;
  if (!strcmp(name, "sleep")) {
    long ns = next(&save);
    struct timespec t = {ns / 1000000000L, ns % 1000000000L};
    nanosleep(&t, NULL);
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
