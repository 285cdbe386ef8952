// Ranks: processes of one machine that compute together, over one file in memory for each group. The file has a slot
// for each rank, a mailbox for each ordered pair, and a barrier; its name goes as soon as all ranks have it.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"

#define MOST_RANKS 64
#define SLOT ((size_t)1 << 20)
#define BOX ((size_t)1 << 17)
#define LONGEST_NAME 128

// What a rank asked for; all ranks of a group must ask for the same.
typedef struct {
  char operation[48];
  uint64_t count;
  int32_t type, reduction;
  uint32_t root, padding;
} request;

typedef struct {
  atomic_uint ranks, joined, waiting, turn, failed;
  atomic_int process[MOST_RANKS];
  atomic_int card[MOST_RANKS];  // counted from 1; 0 is none
  atomic_bool leaving[MOST_RANKS];
  request requests[MOST_RANKS];
} header;

typedef struct {
  atomic_uint full;
  uint32_t padding;
  uint64_t bytes;
  char data[BOX];
} mailbox;

struct ferry_group {
  char name[LONGEST_NAME], label[LONGEST_NAME];
  uint32_t ranks, rank;
  header* shared;
  char* slots;
  mailbox* boxes;
  size_t bytes;
  pthread_mutex_t lock;
  _Atomic ferry_status failure;
};

static const struct {
  size_t bytes;
  const char* name;
} types[] = {{1, "int8"},    {2, "int16"},   {4, "int32"},  {8, "int64"},   {1, "uint8"},
             {2, "uint16"},  {4, "uint32"},  {8, "uint64"}, {2, "float16"}, {2, "bfloat16"},
             {4, "float32"}, {8, "float64"}, {1, "bytes"},  {0, "unknown"}};

size_t ferry_size_of(ferry_type type) { return types[type].bytes; }

uint32_t ferry_ranks(const ferry_group* group) { return group->ranks; }
uint32_t ferry_rank(const ferry_group* group) { return group->rank; }
const char* ferry_label(const ferry_group* group) { return group->label; }
const char* ferry_group_name(const ferry_group* group) { return group->name; }
ferry_status ferry_group_failure(const ferry_group* group) { return atomic_load(&group->failure); }

// --- half precision, of which not every compiler has the types ---

static float half_to_float(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
  uint32_t mantissa = half & 1023u, bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | mantissa << 13;
  } else if (exponent != 0) {
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else if (mantissa == 0) {
    bits = sign;
  } else {
    uint32_t shift = 0;
    while ((mantissa & 1024u) == 0) {
      mantissa <<= 1;
      shift++;
    }
    bits = sign | (113 - shift) << 23 | (mantissa & 1023u) << 13;
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t float_to_half(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u) {
    return sign | 0x7e00u;
  }
  if (bits >= 0x477ff000u) {  // rounds to more than 65504
    return sign | 0x7c00u;
  }
  if (bits < 0x38800000u) {  // below the normal ones: the addition rounds to a multiple of 2^-24
    float magnitude;
    memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    memcpy(&bits, &magnitude, sizeof bits);
    return sign | (uint16_t)(bits - 0x3f000000u);
  }
  return sign | (uint16_t)((bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13);
}

static float brain_to_float(uint16_t brain) {
  const uint32_t bits = (uint32_t)brain << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t float_to_brain(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return 0x7fc0u;
  }
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// A NaN wins over any number, from either side.
#define REDUCED(type, a, b)                                         \
  (reduction == FERRY_SUM       ? (type)((a) + (b))                 \
   : reduction == FERRY_PRODUCT ? (type)((a) * (b))                 \
   : reduction == FERRY_MAX     ? ((b) > (a) || (b) != (b) ? b : a) \
                                : ((b) < (a) || (b) != (b) ? b : a))
#define REDUCE(type)                           \
  do {                                         \
    type* target = into;                       \
    const type* source = from;                 \
    for (uint64_t i = 0; i < count; i++) {     \
      const type a = target[i], b = source[i]; \
      target[i] = REDUCED(type, a, b);         \
    }                                          \
  } while (0)
#define REDUCE_HALF(widen, narrow)                            \
  do {                                                        \
    uint16_t* target = into;                                  \
    const uint16_t* source = from;                            \
    for (uint64_t i = 0; i < count; i++) {                    \
      const float a = widen(target[i]), b = widen(source[i]); \
      target[i] = narrow(REDUCED(float, a, b));               \
    }                                                         \
  } while (0)

void ferry_reduce_into(void* into, const void* from, uint64_t count, ferry_type type, ferry_reduction reduction) {
  switch (type) {
    case FERRY_INT8:
      REDUCE(int8_t);
      break;
    case FERRY_INT16:
      REDUCE(int16_t);
      break;
    case FERRY_INT32:
      REDUCE(int32_t);
      break;
    case FERRY_INT64:
      REDUCE(int64_t);
      break;
    case FERRY_UINT8:
      REDUCE(uint8_t);
      break;
    case FERRY_UINT16:
      REDUCE(uint16_t);
      break;
    case FERRY_UINT32:
      REDUCE(uint32_t);
      break;
    case FERRY_UINT64:
      REDUCE(uint64_t);
      break;
    case FERRY_FLOAT16:
      REDUCE_HALF(half_to_float, float_to_half);
      break;
    case FERRY_BFLOAT16:
      REDUCE_HALF(brain_to_float, float_to_brain);
      break;
    case FERRY_FLOAT32:
      REDUCE(float);
      break;
    case FERRY_FLOAT64:
      REDUCE(double);
      break;
    case FERRY_BYTES:
    case FERRY_NO_TYPE:
      break;
  }
}

// --- waiting ---

static double limit(void) { return (double)ferry_number("timeout", 600); }

static ferry_status fail(ferry_group* group, ferry_status status) {
  atomic_store(&group->failure, status);
  unsigned none = 0;
  atomic_compare_exchange_strong(&group->shared->failed, &none, group->rank + 1);
  return status;
}

// Whether a process has ended, be it that its parent has not asked for it yet.
static bool has_ended(int process) {
  if (kill(process, 0) != 0) {
    return errno == ESRCH;
  }
  char path[32], text[512];
  (void)snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE* file = fopen(path, "r");
  if (file == NULL) {
    return false;
  }
  const size_t read = fread(text, 1, sizeof text - 1, file);
  (void)fclose(file);
  text[read] = '\0';
  const char* state = strrchr(text, ')');  // "PID (name) STATE ...", and a name may hold anything
  return state != NULL && state[1] == ' ' && state[2] == 'Z';
}

// The rank whose process has ended, -1 for none.
static int dead_rank(const ferry_group* group) {
  for (uint32_t i = 0; i < group->ranks; i++) {
    const int process = atomic_load(&group->shared->process[i]);
    if (process != 0 && has_ended(process)) {
      return (int)i;
    }
  }
  return -1;
}

// A wait that goes easy on a machine with fewer cores than ranks, and that ends when it cannot succeed.
typedef struct {
  unsigned rounds;
  double since;
} patience;

static ferry_status wait_a_little(ferry_group* group, const char* operation, patience* wait) {
  if (wait->rounds++ < 200) {
    sched_yield();
    return FERRY_OK;
  }
  if (wait->since == 0) {
    wait->since = ferry_seconds();
  }
  const struct timespec pause = {0, 50000};
  nanosleep(&pause, NULL);
  if (wait->rounds % 64 != 0) {
    return FERRY_OK;
  }
  const unsigned failed = atomic_load(&group->shared->failed);
  if (failed != 0 && failed != group->rank + 1) {
    ferry_say("%s: rank %u of %s failed", operation, failed - 1, group->label);
    return fail(group, FERRY_REMOTE);
  }
  const int dead = dead_rank(group);
  if (dead >= 0 && wait->rounds > 2000) {  // it may have left all that we wait for before it ended
    ferry_say("%s: the process of rank %d of %s has ended", operation, dead, group->label);
    return fail(group, FERRY_REMOTE);
  }
  if (ferry_seconds() - wait->since > limit()) {
    ferry_say("%s: rank %u of %s waited %.0f s for another rank", operation, group->rank, group->label, limit());
    return fail(group, FERRY_TIMEOUT);
  }
  return FERRY_OK;
}

static ferry_status meet(ferry_group* group, const char* operation) {
  header* shared = group->shared;
  const unsigned turn = atomic_load(&shared->turn);
  if (atomic_fetch_add(&shared->waiting, 1) + 1 == group->ranks) {
    atomic_store(&shared->waiting, 0);
    atomic_store(&shared->turn, turn + 1);
    return FERRY_OK;
  }
  patience wait = {0, 0};
  while (atomic_load(&shared->turn) == turn) {
    const ferry_status status = wait_a_little(group, operation, &wait);
    if (status != FERRY_OK) {
      return status;
    }
  }
  return FERRY_OK;
}

// --- joining and leaving ---

static void wait_for_parcels(const ferry_group* group);  // NULL: of all groups

void ferry_new_group_name(char* name, size_t room) {
  uint64_t random[2] = {0, 0};
  if (getrandom(random, sizeof random, 0) != sizeof random) {
    random[0] = (uint64_t)getpid();
    random[1] = (uint64_t)time(NULL);
  }
  (void)snprintf(name, room, "ferry-%d-%016llx%016llx", getpid(), (unsigned long long)random[0],
                 (unsigned long long)random[1]);
}

static size_t header_bytes(void) { return (sizeof(header) + 4095) / 4096 * 4096; }

static ferry_status open_file(ferry_group* group) {
  char path[LONGEST_NAME + 2];
  (void)snprintf(path, sizeof path, "/%s", group->name);
  group->bytes = header_bytes() + group->ranks * SLOT + (size_t)group->ranks * group->ranks * sizeof(mailbox);
  const int file = shm_open(path, O_CREAT | O_RDWR | O_NOFOLLOW, 0600);
  if (file < 0) {
    ferry_say("no shared memory for %u ranks: %s", group->ranks, strerror(errno));
    return FERRY_SYSTEM;
  }
  const int full = posix_fallocate(file, 0, (off_t)group->bytes);  // without it a full /dev/shm ends the process later
  void* start = full == 0 ? mmap(NULL, group->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (start == MAP_FAILED) {
    ferry_say("/dev/shm has no %zu bytes for %u ranks: %s", group->bytes, group->ranks, strerror(full ? full : errno));
    shm_unlink(path);
    return FERRY_SYSTEM;
  }
  group->shared = start;
  group->slots = (char*)start + header_bytes();
  group->boxes = (mailbox*)(group->slots + group->ranks * SLOT);
  return FERRY_OK;
}

// A card computes for one rank of a group: collectives between two on the same card would wait for each other.
static ferry_status check_cards(ferry_group* group) {
  const header* shared = group->shared;
  for (uint32_t i = 0; i < group->ranks; i++) {
    const int card = atomic_load(&shared->card[i]);
    for (uint32_t j = i + 1; card != 0 && j < group->ranks; j++) {
      if (atomic_load(&shared->card[j]) == card) {
        ferry_say("ranks %u and %u of %u both use card %d: each rank needs a card of its own", i, j, group->ranks,
                  card - 1);
        return fail(group, FERRY_MISMATCH);
      }
    }
  }
  return FERRY_OK;
}

static ferry_status meet_all(ferry_group* group) {
  header* shared = group->shared;
  unsigned none = 0;
  if (!atomic_compare_exchange_strong(&shared->ranks, &none, group->ranks) && none != group->ranks) {
    ferry_say("rank %u joins a group of %u ranks, others one of %u", group->rank, group->ranks, none);
    return fail(group, FERRY_MISMATCH);
  }
  int nobody = 0;
  if (!atomic_compare_exchange_strong(&shared->process[group->rank], &nobody, getpid())) {
    ferry_say("two processes join as rank %u", group->rank);
    return fail(group, FERRY_MISMATCH);
  }
  atomic_store(&shared->card[group->rank], ferry_current_card() + 1);
  atomic_fetch_add(&shared->joined, 1);
  patience wait = {0, 0};
  while (atomic_load(&shared->joined) != group->ranks) {
    const ferry_status status = wait_a_little(group, "joining", &wait);
    if (status != FERRY_OK) {
      return status;
    }
  }
  const ferry_status status = meet(group, "joining");
  return status == FERRY_OK ? check_cards(group) : status;
}

ferry_status ferry_join(ferry_group** group, const char* name, const char* label, uint32_t ranks, uint32_t rank) {
  if (group == NULL || name == NULL || *name == '\0' || strchr(name, '/') != NULL || ranks == 0 || ranks > MOST_RANKS ||
      rank >= ranks) {
    ferry_say("rank %u of %u: at most %d ranks are simulated", rank, ranks, MOST_RANKS);
    return FERRY_BAD_ARGUMENT;
  }
  ferry_group* made = calloc(1, sizeof *made);
  if (made == NULL) {
    return FERRY_OUT_OF_MEMORY;
  }
  (void)snprintf(made->name, sizeof made->name, "%s", name);
  (void)snprintf(made->label, sizeof made->label, "%s", label != NULL && *label != '\0' ? label : name);
  made->ranks = ranks;
  made->rank = rank;
  pthread_mutex_init(&made->lock, NULL);
  ferry_status status = open_file(made);
  if (status == FERRY_OK) {
    status = meet_all(made);
    if (rank == 0 || status != FERRY_OK) {
      char path[LONGEST_NAME + 2];
      (void)snprintf(path, sizeof path, "/%s", made->name);
      shm_unlink(path);
    }
    if (status != FERRY_OK) {
      munmap(made->shared, made->bytes);
    }
  }
  if (status != FERRY_OK) {
    pthread_mutex_destroy(&made->lock);
    free(made);
    return status;
  }
  *group = made;
  return FERRY_OK;
}

ferry_status ferry_leave(ferry_group* group) {
  if (group == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  atomic_store(&group->shared->leaving[group->rank], true);
  wait_for_parcels(group);
  atomic_store(&group->shared->process[group->rank], 0);
  munmap(group->shared, group->bytes);
  pthread_mutex_destroy(&group->lock);
  free(group);
  return FERRY_OK;
}

// --- collectives ---

static char* slot(const ferry_group* group, uint32_t rank) { return group->slots + rank * SLOT; }

static const char* reduction_name(int32_t reduction) {
  static const char* const names[] = {"sum", "product", "max", "min", "none"};
  return names[reduction];
}

// Every rank must ask for the same: who does not is told what the other asked for.
static ferry_status agree(ferry_group* group, const char* operation, uint64_t count, ferry_type type,
                          ferry_reduction reduction, uint32_t root) {
  request* mine = &group->shared->requests[group->rank];
  memset(mine, 0, sizeof *mine);
  (void)snprintf(mine->operation, sizeof mine->operation, "%s", operation);
  mine->count = count;
  mine->type = (int32_t)type;
  mine->reduction = (int32_t)reduction;
  mine->root = root;
  ferry_status status = meet(group, operation);
  for (uint32_t i = 0; i < group->ranks && status == FERRY_OK; i++) {
    const request* other = &group->shared->requests[i];
    if (memcmp(other, mine, sizeof *mine) != 0) {
      ferry_say("rank %u of %s asks for %s of %llu x %s (%s, root %u), rank %u for %s of %llu x %s (%s, root %u)",
                group->rank, group->label, mine->operation, (unsigned long long)mine->count, types[mine->type].name,
                reduction_name(mine->reduction), mine->root, i, other->operation, (unsigned long long)other->count,
                types[other->type].name, reduction_name(other->reduction), other->root);
      status = FERRY_MISMATCH;
    }
  }
  if (status == FERRY_MISMATCH) {
    // Others see the same, so they do not wait; the first rank of this group to leave must not pull it away.
    (void)meet(group, operation);
    return fail(group, status);
  }
  return status == FERRY_OK ? meet(group, operation) : status;
}

// What ranks do together on a stream of the graph that is recorded becomes part of the graph. On another stream it
// would be done once, with what the graph has not computed yet.
static bool is_recording(const char* operation) {
  if (atomic_load(ferry_recording()) == 0) {
    return false;
  }
  ferry_note(operation);
  ferry_say("%s on a stream outside of the graph that is recorded is not simulated", operation);
  return true;
}

static ferry_status begin(ferry_group* group, const char* operation, uint64_t count, ferry_type type,
                          ferry_reduction reduction, uint32_t root) {
  if (group == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  if (is_recording(operation)) {
    return FERRY_NOT_SIMULATED;
  }
  if (type == FERRY_NO_TYPE || (type == FERRY_BYTES && reduction != FERRY_NO_REDUCTION)) {
    ferry_say("%s of this type of elements is not simulated", operation);
    return FERRY_NOT_SIMULATED;
  }
  if (root >= group->ranks) {
    ferry_say("%s: there is no rank %u among %u", operation, root, group->ranks);
    return FERRY_BAD_ARGUMENT;
  }
  pthread_mutex_lock(&group->lock);
  const ferry_status status = agree(group, operation, count, type, reduction, root);
  if (status != FERRY_OK) {
    pthread_mutex_unlock(&group->lock);
  }
  return status;
}

// One round over the slots: `write` fills this rank's, all meet, `read` takes from them, all meet again.
typedef struct {
  ferry_group* group;
  const char* operation;
  const char* from;
  char* to;
  size_t element;
  uint64_t count;
  ferry_type type;
  ferry_reduction reduction;
  uint32_t root;
} work;

static ferry_status in_parts(const work* job, void (*write)(const work*, uint64_t, uint64_t),
                             void (*read)(const work*, uint64_t, uint64_t)) {
  const uint64_t most = SLOT / job->element;
  ferry_status status = FERRY_OK;
  for (uint64_t first = 0; first < job->count && status == FERRY_OK; first += most) {
    const uint64_t count = job->count - first < most ? job->count - first : most;
    write(job, first, count);
    status = meet(job->group, job->operation);
    if (status == FERRY_OK) {
      read(job, first, count);
      status = meet(job->group, job->operation);
    }
  }
  return status;
}

static ferry_status finish(ferry_group* group, ferry_status status) {
  pthread_mutex_unlock(&group->lock);
  return status;
}

// A collective that passes once over the slots. The size of an element is filled in when its type was found good.
static ferry_status collective(work job, void (*write)(const work*, uint64_t, uint64_t),
                               void (*read)(const work*, uint64_t, uint64_t)) {
  const ferry_status status = begin(job.group, job.operation, job.count, job.type, job.reduction, job.root);
  if (status != FERRY_OK) {
    return status;
  }
  job.element = types[job.type].bytes;
  return finish(job.group, in_parts(&job, write, read));
}

static void write_own(const work* job, uint64_t first, uint64_t count) {
  memcpy(slot(job->group, job->group->rank), job->from + first * job->element, count * job->element);
}

static void write_as_root(const work* job, uint64_t first, uint64_t count) {
  if (job->group->rank == job->root) {
    write_own(job, first, count);
  }
}

// In the order of the ranks, so that all of them get the same bits.
static void read_reduced(const work* job, uint64_t first, uint64_t count) {
  char* to = job->to + first * job->element;
  memcpy(to, slot(job->group, 0), count * job->element);
  for (uint32_t i = 1; i < job->group->ranks; i++) {
    ferry_reduce_into(to, slot(job->group, i), count, job->type, job->reduction);
  }
}

static void read_reduced_as_root(const work* job, uint64_t first, uint64_t count) {
  if (job->group->rank == job->root) {
    read_reduced(job, first, count);
  }
}

static void read_from_root(const work* job, uint64_t first, uint64_t count) {
  if (job->group->rank != job->root || job->to != job->from) {
    memcpy(job->to + first * job->element, slot(job->group, job->root), count * job->element);
  }
}

static void read_all(const work* job, uint64_t first, uint64_t count) {
  for (uint32_t i = 0; i < job->group->ranks; i++) {
    memcpy(job->to + (i * job->count + first) * job->element, slot(job->group, i), count * job->element);
  }
}

ferry_status ferry_all_reduce(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                              ferry_type type, ferry_reduction reduction) {
  const work job = {group, operation, from, to, 0, count, type, reduction, 0};
  return collective(job, write_own, read_reduced);
}

ferry_status ferry_reduce(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                          ferry_type type, ferry_reduction reduction, uint32_t root) {
  const work job = {group, operation, from, to, 0, count, type, reduction, root};
  return collective(job, write_own, read_reduced_as_root);
}

ferry_status ferry_broadcast(ferry_group* group, const char* operation, void* buffer, uint64_t count, ferry_type type,
                             uint32_t root) {
  const work job = {group, operation, buffer, buffer, 0, count, type, FERRY_NO_REDUCTION, root};
  return collective(job, write_as_root, read_from_root);
}

ferry_status ferry_all_gather(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                              ferry_type type) {
  const work job = {group, operation, from, to, 0, count, type, FERRY_NO_REDUCTION, 0};
  return collective(job, write_own, read_all);
}

// Of each rank's part in turn: the one whose part it is takes the sum. The result may lie on the input.
ferry_status ferry_reduce_scatter(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                                  ferry_type type, ferry_reduction reduction) {
  ferry_status status = begin(group, operation, count, type, reduction, 0);
  if (status != FERRY_OK) {
    return status;
  }
  const size_t bytes = count * types[type].bytes;
  char* own = malloc(bytes == 0 ? 1 : bytes);
  if (own == NULL) {
    return finish(group, fail(group, FERRY_OUT_OF_MEMORY));
  }
  for (uint32_t i = 0; i < group->ranks && status == FERRY_OK; i++) {
    const work job = {group,     operation, (const char*)from + i * bytes, own, types[type].bytes, count, type,
                      reduction, i};
    status = in_parts(&job, write_own, read_reduced_as_root);
  }
  if (status == FERRY_OK) {
    memcpy(to, own, bytes);
  }
  free(own);
  return finish(group, status);
}

ferry_status ferry_scatter(ferry_group* group, const char* operation, const void* from, void* to, uint64_t count,
                           ferry_type type, uint32_t root) {
  ferry_status status = begin(group, operation, count, type, FERRY_NO_REDUCTION, root);
  if (status != FERRY_OK) {
    return status;
  }
  const size_t element = types[type].bytes;
  const uint64_t most = SLOT / element;
  for (uint32_t i = 0; i < group->ranks && status == FERRY_OK; i++) {
    for (uint64_t first = 0; first < count && status == FERRY_OK; first += most) {
      const uint64_t part = count - first < most ? count - first : most;
      if (group->rank == root) {
        memcpy(slot(group, root), (const char*)from + (i * count + first) * element, part * element);
      }
      status = meet(group, operation);
      if (status == FERRY_OK && group->rank == i) {
        memcpy((char*)to + first * element, slot(group, root), part * element);
      }
      status = status == FERRY_OK ? meet(group, operation) : status;
    }
  }
  return finish(group, status);
}

ferry_status ferry_barrier(ferry_group* group, const char* operation) {
  const ferry_status status = begin(group, operation, 0, FERRY_BYTES, FERRY_NO_REDUCTION, 0);
  return status == FERRY_OK ? finish(group, status) : status;
}

// --- messages ---

static bool waits_for_earlier(const ferry_message* messages, const size_t* done, size_t index) {
  for (size_t i = 0; i < index; i++) {
    if (messages[i].peer == messages[index].peer && messages[i].sends == messages[index].sends &&
        done[i] < messages[i].bytes) {
      return true;
    }
  }
  return false;
}

// Move what can be moved now; whether anything was. `wrong` is set where a message is longer than its receiver asked.
static bool move(ferry_group* group, ferry_message* message, size_t* done, bool* wrong) {
  const size_t left = message->bytes - *done;
  if (message->sends) {
    mailbox* box = &group->boxes[group->rank * group->ranks + message->peer];
    if (atomic_load(&box->full) != 0) {
      return false;
    }
    box->bytes = left < BOX ? left : BOX;
    memcpy(box->data, (char*)message->buffer + *done, box->bytes);
    *done += box->bytes;
    atomic_store(&box->full, 1);
    return true;
  }
  mailbox* box = &group->boxes[message->peer * group->ranks + group->rank];
  if (atomic_load(&box->full) == 0) {
    return false;
  }
  if (box->bytes > left) {
    *wrong = true;
    return false;
  }
  memcpy((char*)message->buffer + *done, box->data, box->bytes);
  *done += box->bytes;
  atomic_store(&box->full, 0);
  return true;
}

// --- what is sent while its sender goes on ---

// A card sends from a stream, and the program goes on. Here a message that its receiver does not take at once is
// copied, and a thread delivers it: in order for each pair of ranks.
typedef struct parcel {
  ferry_group* group;
  const char* operation;
  ferry_message message;
  size_t done;
  patience wait;
  struct parcel* next;
  char data[];
} parcel;

static pthread_mutex_t parcels_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t parcels_came = PTHREAD_COND_INITIALIZER, parcels_left = PTHREAD_COND_INITIALIZER;
static parcel* parcels;  // in the order in which they were sent
static bool courier_started;

static bool has_parcel(const ferry_group* group, uint32_t peer) {
  pthread_mutex_lock(&parcels_lock);
  const parcel* each = parcels;
  while (each != NULL && (each->group != group || each->message.peer != peer)) {
    each = each->next;
  }
  pthread_mutex_unlock(&parcels_lock);
  return each != NULL;
}

static bool is_first_of_its_pair(const parcel* looked_at) {
  const parcel* each = parcels;
  while (each != looked_at && (each->group != looked_at->group || each->message.peer != looked_at->message.peer)) {
    each = each->next;
  }
  return each == looked_at;
}

// The peer leaves the group, or cannot come any more: nobody will take it.
static bool is_lost(parcel* each) {
  return atomic_load(&each->group->shared->leaving[each->message.peer]) ||
         wait_a_little(each->group, each->operation, &each->wait) != FERRY_OK;
}

static void* deliver(void* unused) {
  (void)unused;
  pthread_mutex_lock(&parcels_lock);
  for (;;) {
    while (parcels == NULL) {
      pthread_cond_wait(&parcels_came, &parcels_lock);
    }
    for (parcel** place = &parcels; *place != NULL;) {
      parcel* each = *place;
      bool moved = false, wrong = false;
      if (is_first_of_its_pair(each)) {
        moved = move(each->group, &each->message, &each->done, &wrong);
      }
      bool over = each->done == each->message.bytes;
      if (moved) {
        each->wait = (patience){0, 0};
      } else if (!over) {
        pthread_mutex_unlock(&parcels_lock);  // only this thread takes parcels out
        over = is_lost(each);
        pthread_mutex_lock(&parcels_lock);
      }
      if (over) {
        *place = each->next;
        free(each);
        pthread_cond_broadcast(&parcels_left);
      } else {
        place = &each->next;
      }
    }
  }
  return NULL;
}

static void wait_for_parcels(const ferry_group* group) {
  pthread_mutex_lock(&parcels_lock);
  for (;;) {
    const parcel* each = parcels;
    while (each != NULL && group != NULL && each->group != group) {
      each = each->next;
    }
    if (each == NULL) {
      break;
    }
    pthread_cond_wait(&parcels_left, &parcels_lock);
  }
  pthread_mutex_unlock(&parcels_lock);
}

static void deliver_the_rest(void) {
  pthread_mutex_lock(&parcels_lock);
  for (const parcel* each = parcels; each != NULL; each = each->next) {
    atomic_store(&each->group->shared->leaving[each->group->rank], true);
  }
  pthread_mutex_unlock(&parcels_lock);
  wait_for_parcels(NULL);
}

static void forget_parcels(void) {  // in the child of a fork, which has no such thread
  parcels = NULL;
  courier_started = false;
  pthread_mutex_init(&parcels_lock, NULL);
  pthread_cond_init(&parcels_came, NULL);
  pthread_cond_init(&parcels_left, NULL);
}

static bool start_courier(void) {
  static bool ends_well;
  pthread_t thread;
  if (courier_started || pthread_create(&thread, NULL, deliver, NULL) != 0) {
    return courier_started;
  }
  pthread_detach(thread);
  if (!ends_well) {
    (void)atexit(deliver_the_rest);
    (void)pthread_atfork(NULL, NULL, forget_parcels);
    ends_well = true;
  }
  return courier_started = true;
}

// Hand over what is left of a message. False: there is no memory, or no thread.
static bool hand_over(ferry_group* group, const char* operation, const ferry_message* message, size_t done) {
  const size_t bytes = message->bytes - done;
  parcel* made = calloc(1, sizeof *made + bytes);
  if (made == NULL) {
    return false;
  }
  made->group = group;
  made->operation = operation;
  made->message = (ferry_message){true, made->data, bytes, message->peer};
  memcpy(made->data, (const char*)message->buffer + done, bytes);
  pthread_mutex_lock(&parcels_lock);
  const bool taken = start_courier();
  if (taken) {
    parcel** place = &parcels;
    while (*place != NULL) {
      place = &(*place)->next;
    }
    *place = made;
    pthread_cond_signal(&parcels_came);
  } else {
    free(made);
  }
  pthread_mutex_unlock(&parcels_lock);
  return taken;
}

static bool has_arrived(const ferry_group* group, uint32_t peer) {
  return atomic_load(&group->boxes[peer * group->ranks + group->rank].full) != 0;
}

// Asked when a message of the peer has arrived: whether it has not yet taken what this rank had sent to it. By the
// vendors' words a message and its receiver wait for each other on a stream, so that on cards both might wait for ever.
static bool both_sent_first(const ferry_group* group, uint32_t peer) {
  return peer != group->rank &&
         (has_parcel(group, peer) || atomic_load(&group->boxes[group->rank * group->ranks + peer].full) != 0);
}

ferry_status ferry_exchange(ferry_group* group, const char* operation, ferry_message* messages, size_t count) {
  if (group == NULL || (messages == NULL && count != 0)) {
    return FERRY_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < count; i++) {
    if (messages[i].peer >= group->ranks) {
      ferry_say("%s: there is no rank %u among %u", operation, messages[i].peer, group->ranks);
      return FERRY_BAD_ARGUMENT;
    }
  }
  if (is_recording(operation)) {
    return FERRY_NOT_SIMULATED;
  }
  size_t* done = calloc(count == 0 ? 1 : count, sizeof *done);
  if (done == NULL) {
    return FERRY_OUT_OF_MEMORY;
  }
  ferry_status status = FERRY_OK;
  bool left = count != 0, crossed = false;
  patience wait = {0, 0};
  while (left && status == FERRY_OK) {
    bool moved = false, wrong = false;
    left = false;
    for (size_t i = 0; i < count; i++) {
      if (done[i] < messages[i].bytes) {
        left = true;
        if (count == 1 && !messages[i].sends && done[i] == 0) {
          if (!has_arrived(group, messages[i].peer)) {
            continue;  // the question below comes before the message is taken
          }
          crossed = both_sent_first(group, messages[i].peer);
        }
        if (!waits_for_earlier(messages, done, i) && !(messages[i].sends && has_parcel(group, messages[i].peer))) {
          moved |= move(group, &messages[i], &done[i], &wrong);
        }
      }
    }
    if (wrong) {
      ferry_say("%s: rank %u of %s receives more than it asked for", operation, group->rank, group->label);
      status = fail(group, FERRY_MISMATCH);
    } else if (moved) {
      wait = (patience){0, 0};
    } else if (left) {
      if (count == 1 && messages[0].sends && wait.rounds >= 100 && hand_over(group, operation, messages, done[0])) {
        break;
      }
      status = wait_a_little(group, operation, &wait);
    }
  }
  if (crossed) {
    ferry_note("two ranks that send to each other before either receives");
  }
  free(done);
  return status;
}
