// libhccl as the plugin meets it: communicators between processes of one machine.
// Source: github.com/Ascend/pytorch@9e73e708ab93 third_party/hccl/inc/hccl (hccl.h, hccl_types.h) and
// torch_npu/csrc/distributed/HcclCompile.h.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

enum {
  HCCL_SUCCESS = 0,
  HCCL_E_PARA = 1,
  HCCL_E_PTR = 2,
  HCCL_E_INTERNAL = 4,
  HCCL_E_NOT_SUPPORT = 5,
  HCCL_E_SYSCALL = 8,
  HCCL_E_TIMEOUT = 9,
  HCCL_E_REMOTE = 21,
  HCCL_E_OOM = 24,
};

#define ROOT_BYTES 4108
#define NAME_BYTES 128
#define MOST_RANKS 64

typedef struct {
  char reserved[24];
  uint32_t buffer_size, deterministic;
  char name[NAME_BYTES];
} settings;

typedef struct {
  int kind;  // 0 sends, 1 receives
  void* buffer;
  uint64_t count;
  int type;
  uint32_t peer;
} send_receive;

static int status_of(ferry_status status) {
  switch (status) {
    case FERRY_OK:
      return HCCL_SUCCESS;
    case FERRY_BAD_ARGUMENT:
    case FERRY_BAD_DEVICE:
    case FERRY_NO_CONTEXT:
    case FERRY_MISMATCH:
    case FERRY_RECORDED:
    case FERRY_UNRECORDED:
    case FERRY_UNJOINED:
      break;
    case FERRY_OUT_OF_MEMORY:
      return HCCL_E_OOM;
    case FERRY_NOT_SIMULATED:
      return HCCL_E_NOT_SUPPORT;
    case FERRY_TIMEOUT:
      return HCCL_E_TIMEOUT;
    case FERRY_SYSTEM:
      return HCCL_E_SYSCALL;
    case FERRY_REMOTE:
      return HCCL_E_REMOTE;
  }
  return HCCL_E_PARA;
}

// What went wrong is for people: the plugin shows the number alone.
static int told(ferry_status status) {
  if (status != FERRY_OK) {
    const char* text = ferry_take_said();
    if (*text != '\0') {
      (void)fprintf(stderr, "[simulated driver] %s\n", text);
      ferry_say("%s", text);
    }
  }
  return status_of(status);
}

// HcclDataType.
static ferry_type type_of(int type) {
  static const ferry_type types[] = {FERRY_INT8,    FERRY_INT16,  FERRY_INT32,   FERRY_FLOAT16,
                                     FERRY_FLOAT32, FERRY_INT64,  FERRY_UINT64,  FERRY_UINT8,
                                     FERRY_UINT16,  FERRY_UINT32, FERRY_FLOAT64, FERRY_BFLOAT16};
  if (type >= 14 && type <= 17) {
    return FERRY_BYTES;  // eight bits of several kinds: they are moved and not added
  }
  return type >= 0 && type < (int)(sizeof types / sizeof types[0]) ? types[type] : FERRY_NO_TYPE;
}

// HcclReduceOp.
static ferry_reduction reduction_of(int operation) {
  return operation >= 0 && operation < 4 ? (ferry_reduction)operation : FERRY_NO_REDUCTION;
}

// --- communicators ---

FERRY_EXPORT int HcclGetRootInfo(char* root) {
  if (root == NULL) {
    return HCCL_E_PTR;
  }
  memset(root, 0, ROOT_BYTES);
  ferry_new_group_name(root, NAME_BYTES);
  return HCCL_SUCCESS;
}

FERRY_EXPORT int HcclCommInitRootInfoConfig(uint32_t ranks, const char* root, uint32_t rank, const settings* config,
                                            ferry_group** group) {
  if (root == NULL || group == NULL) {
    return HCCL_E_PTR;
  }
  return told(ferry_join(group, root, config == NULL ? "" : config->name, ranks, rank));
}

FERRY_EXPORT int HcclCommInitRootInfo(uint32_t ranks, const char* root, uint32_t rank, ferry_group** group) {
  return HcclCommInitRootInfoConfig(ranks, root, rank, NULL, group);
}

static uint64_t mixed(uint64_t hash, uint64_t value) { return (hash ^ value) * UINT64_C(1099511628211); }

// All members come, with the same ranks and number: what they have in common is the name of the new group.
FERRY_EXPORT int HcclCreateSubCommConfig(ferry_group** parent, uint32_t ranks, const uint32_t* members, uint64_t number,
                                         uint32_t rank, const settings* config, ferry_group** group) {
  if (parent == NULL || *parent == NULL || members == NULL || group == NULL) {
    return HCCL_E_PTR;
  }
  uint64_t hash = mixed(UINT64_C(14695981039346656037), number);
  for (uint32_t i = 0; i < ranks; i++) {
    hash = mixed(hash, members[i]);
  }
  const char* label = config == NULL ? "" : config->name;
  for (const char* at = label; *at != '\0'; at++) {
    hash = mixed(hash, (unsigned char)*at);
  }
  char name[NAME_BYTES];
  (void)snprintf(name, sizeof name, "%.90s-%016llx", ferry_group_name(*parent), (unsigned long long)hash);
  return told(ferry_join(group, name, label, ranks, rank));
}

FERRY_EXPORT int HcclCommDestroy(ferry_group* group) { return group == NULL ? HCCL_E_PTR : told(ferry_leave(group)); }

FERRY_EXPORT int HcclGetCommAsyncError(ferry_group* group, int* error) {
  if (group == NULL || error == NULL) {
    return HCCL_E_PTR;
  }
  *error = status_of(ferry_group_failure(group));
  return HCCL_SUCCESS;
}

FERRY_EXPORT const char* HcclGetErrorString(int error) {
  switch (error) {
    case HCCL_SUCCESS:
      return "success";
    case HCCL_E_PARA:
      return "parameter error";
    case HCCL_E_NOT_SUPPORT:
      return "not support feature";
    case HCCL_E_TIMEOUT:
      return "timeout";
    case HCCL_E_REMOTE:
      return "error cqe";
    case HCCL_E_OOM:
      return "out of memory";
    default:
      return "internal error";
  }
}

// A feature is there when its number is below this.
FERRY_EXPORT uint32_t HcclGetCommConfigCapability(void) { return 12; }

FERRY_EXPORT int HcclGetCommName(ferry_group* group, char* name) {
  if (group == NULL || name == NULL) {
    return HCCL_E_PTR;
  }
  (void)snprintf(name, NAME_BYTES, "%s", ferry_label(group));
  return HCCL_SUCCESS;
}

FERRY_EXPORT int HcclGetRankSize(ferry_group* group, uint32_t* ranks) {
  *ranks = ferry_ranks(group);
  return HCCL_SUCCESS;
}

FERRY_EXPORT int HcclGetRankId(ferry_group* group, uint32_t* rank) {
  *rank = ferry_rank(group);
  return HCCL_SUCCESS;
}

// --- collectives ---

typedef enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SCATTER, BARRIER } kind;

typedef struct {
  kind kind;
  ferry_group* group;
  const void* from;
  void* to;
  uint64_t count;
  ferry_type type;
  ferry_reduction reduction;
  uint32_t root;
} collective;

static ferry_status do_collective(const collective* it) {
  switch (it->kind) {
    case ALL_REDUCE:
      return ferry_all_reduce(it->group, "HcclAllReduce", it->from, it->to, it->count, it->type, it->reduction);
    case REDUCE:
      return ferry_reduce(it->group, "HcclReduce", it->from, it->to, it->count, it->type, it->reduction, it->root);
    case BROADCAST:
      return ferry_broadcast(it->group, "HcclBroadcast", it->to, it->count, it->type, it->root);
    case ALL_GATHER:
      return ferry_all_gather(it->group, "HcclAllGather", it->from, it->to, it->count, it->type);
    case REDUCE_SCATTER:
      return ferry_reduce_scatter(it->group, "HcclReduceScatter", it->from, it->to, it->count, it->type, it->reduction);
    case SCATTER:
      return ferry_scatter(it->group, "HcclScatter", it->from, it->to, it->count, it->type, it->root);
    case BARRIER:
      break;
  }
  return ferry_barrier(it->group, "HcclBarrier");
}

static bool run_collective(void* work) { return told(do_collective(work)) == HCCL_SUCCESS; }

// What a collective does with memory, to whoever looks for races. Where there is no other buffer it is done in place.
static void tell_use(const ferry_stream* stream, const collective* it) {
  if (it->group == NULL) {
    return;
  }
  const size_t part = it->count * ferry_size_of(it->type), whole = part * ferry_ranks(it->group);
  const bool gathers = it->kind == ALL_GATHER, spreads = it->kind == REDUCE_SCATTER || it->kind == SCATTER;
  if (it->from != NULL) {
    ferry_tell_order(FERRY_LIBRARY_READS, stream, it->from, spreads ? whole : part);
  }
  if (it->to != NULL) {
    ferry_tell_order(FERRY_LIBRARY_WRITES, stream, it->to, gathers ? whole : part);
  }
}

// While the stream's work is recorded into a graph, what ranks do together belongs to the graph.
static int collect(const ferry_stream* stream, collective wanted) {
  if (!ferry_records(stream)) {
    tell_use(stream, &wanted);
  }
  wanted.from = ferry_host_address(wanted.from);
  wanted.to = ferry_host_address(wanted.to);
  if (!ferry_records(stream)) {
    return told(do_collective(&wanted));
  }
  return ferry_record_copy(run_collective, &wanted, sizeof wanted, stream) ? HCCL_SUCCESS : HCCL_E_OOM;
}

FERRY_EXPORT int HcclAllReduce(const void* from, void* to, uint64_t count, int type, int operation, ferry_group* group,
                               ferry_stream* stream) {
  return collect(stream, (collective){ALL_REDUCE, group, from, to, count, type_of(type), reduction_of(operation), 0});
}

FERRY_EXPORT int HcclReduce(const void* from, void* to, uint64_t count, int type, int operation, uint32_t root,
                            ferry_group* group, ferry_stream* stream) {
  return collect(stream, (collective){REDUCE, group, from, to, count, type_of(type), reduction_of(operation), root});
}

FERRY_EXPORT int HcclBroadcast(void* data, uint64_t count, int type, uint32_t root, ferry_group* group,
                               ferry_stream* stream) {
  return collect(stream, (collective){BROADCAST, group, NULL, data, count, type_of(type), FERRY_NO_REDUCTION, root});
}

FERRY_EXPORT int HcclAllGather(const void* from, void* to, uint64_t count, int type, ferry_group* group,
                               ferry_stream* stream) {
  return collect(stream, (collective){ALL_GATHER, group, from, to, count, type_of(type), FERRY_NO_REDUCTION, 0});
}

FERRY_EXPORT int HcclReduceScatter(const void* from, void* to, uint64_t count, int type, int operation,
                                   ferry_group* group, ferry_stream* stream) {
  return collect(stream,
                 (collective){REDUCE_SCATTER, group, from, to, count, type_of(type), reduction_of(operation), 0});
}

FERRY_EXPORT int HcclScatter(const void* from, void* to, uint64_t count, int type, uint32_t root, ferry_group* group,
                             ferry_stream* stream) {
  return collect(stream, (collective){SCATTER, group, from, to, count, type_of(type), FERRY_NO_REDUCTION, root});
}

FERRY_EXPORT int HcclBarrier(ferry_group* group, ferry_stream* stream) {
  return collect(stream, (collective){BARRIER, group, NULL, NULL, 0, FERRY_BYTES, FERRY_NO_REDUCTION, 0});
}

// --- messages ---

typedef struct {
  ferry_group* group;
  const char* operation;
  size_t count;
  ferry_message messages[];
} exchange;

static bool run_exchange(void* work) {
  exchange* it = work;
  return told(ferry_exchange(it->group, it->operation, it->messages, it->count)) == HCCL_SUCCESS;
}

static int send_and_receive(const ferry_stream* stream, ferry_group* group, const char* operation,
                            ferry_message* messages, size_t count) {
  if (!ferry_records(stream)) {
    for (size_t i = 0; i < count; i++) {
      ferry_tell_order(messages[i].sends ? FERRY_LIBRARY_READS : FERRY_LIBRARY_WRITES, stream, messages[i].buffer,
                       messages[i].bytes);
    }
  }
  for (size_t i = 0; i < count; i++) {
    messages[i].buffer = ferry_host_address(messages[i].buffer);
  }
  if (!ferry_records(stream)) {
    return told(ferry_exchange(group, operation, messages, count));
  }
  exchange* kept = malloc(sizeof *kept + count * sizeof *messages);
  if (kept == NULL) {
    return HCCL_E_OOM;
  }
  *kept = (exchange){group, operation, count};
  memcpy(kept->messages, messages, count * sizeof *messages);
  if (!ferry_record_work(run_exchange, free, kept, stream)) {
    free(kept);
    return HCCL_E_OOM;
  }
  return HCCL_SUCCESS;
}

typedef struct {
  ferry_group* group;
  const ferry_stream* stream;
  ferry_message message;
} posted;

// Between HcclGroupStart and HcclGroupEnd messages are kept, and then go together.
static _Thread_local unsigned groups_open;
static _Thread_local posted* pending;
static _Thread_local size_t pending_count, pending_room;

static int post(const ferry_stream* stream, ferry_group* group, const char* operation, ferry_message message,
                int type) {
  if (group == NULL) {
    return HCCL_E_PTR;
  }
  if (type_of(type) == FERRY_NO_TYPE) {
    return HCCL_E_NOT_SUPPORT;
  }
  if (groups_open == 0) {
    return send_and_receive(stream, group, operation, &message, 1);
  }
  posted* grown = ferry_grown(pending, pending_count, &pending_room, sizeof *grown);
  if (grown == NULL) {
    return HCCL_E_OOM;
  }
  pending = grown;
  pending[pending_count++] = (posted){group, stream, message};
  return HCCL_SUCCESS;
}

FERRY_EXPORT int HcclSend(void* data, uint64_t count, int type, uint32_t peer, ferry_group* group,
                          ferry_stream* stream) {
  return post(stream, group, "HcclSend", (ferry_message){true, data, count * ferry_size_of(type_of(type)), peer}, type);
}

FERRY_EXPORT int HcclRecv(void* data, uint64_t count, int type, uint32_t peer, ferry_group* group,
                          ferry_stream* stream) {
  return post(stream, group, "HcclRecv", (ferry_message){false, data, count * ferry_size_of(type_of(type)), peer},
              type);
}

FERRY_EXPORT int HcclGroupStart(void) {
  groups_open++;
  return HCCL_SUCCESS;
}

FERRY_EXPORT int HcclGroupEnd(void) {
  if (groups_open == 0) {
    return HCCL_E_PARA;
  }
  if (--groups_open > 0) {
    return HCCL_SUCCESS;
  }
  int result = HCCL_SUCCESS;
  ferry_message* messages = calloc(pending_count == 0 ? 1 : pending_count, sizeof *messages);
  if (messages == NULL) {
    result = HCCL_E_OOM;
  }
  for (size_t first = 0; first < pending_count && result == HCCL_SUCCESS; first++) {
    ferry_group* group = pending[first].group;
    size_t count = 0;
    for (size_t i = first; i < pending_count && group != NULL; i++) {
      if (pending[i].group == group) {
        messages[count++] = pending[i].message;
        pending[i].group = NULL;
      }
    }
    if (count != 0) {
      result = send_and_receive(pending[first].stream, group, "HcclGroupEnd", messages, count);
    }
  }
  pending_count = 0;
  free(messages);
  return result;
}

FERRY_EXPORT int HcclBatchSendRecv(const send_receive* items, uint32_t count, ferry_group* group,
                                   ferry_stream* stream) {
  ferry_message* messages = calloc(count == 0 ? 1 : count, sizeof *messages);
  if (messages == NULL) {
    return HCCL_E_OOM;
  }
  for (uint32_t i = 0; i < count; i++) {
    messages[i] = (ferry_message){items[i].kind == 0, items[i].buffer,
                                  items[i].count * ferry_size_of(type_of(items[i].type)), items[i].peer};
  }
  const int result = send_and_receive(stream, group, "HcclBatchSendRecv", messages, count);
  free(messages);
  return result;
}

FERRY_EXPORT int HcclAlltoAllV(const void* from, const uint64_t* send_counts, const uint64_t* send_starts,
                               int send_type, void* to, const uint64_t* receive_counts, const uint64_t* receive_starts,
                               int receive_type, ferry_group* group, ferry_stream* stream) {
  if (group == NULL) {
    return HCCL_E_PTR;
  }
  const size_t sent = ferry_size_of(type_of(send_type)), received = ferry_size_of(type_of(receive_type));
  if (sent == 0 || received == 0) {
    return HCCL_E_NOT_SUPPORT;
  }
  const uint32_t ranks = ferry_ranks(group);
  ferry_message messages[2 * MOST_RANKS];
  for (uint32_t i = 0; i < ranks; i++) {
    messages[2 * i] = (ferry_message){true, (char*)from + send_starts[i] * sent, send_counts[i] * sent, i};
    messages[2 * i + 1] =
        (ferry_message){false, (char*)to + receive_starts[i] * received, receive_counts[i] * received, i};
  }
  return send_and_receive(stream, group, "HcclAlltoAllV", messages, (size_t)2 * ranks);
}

FERRY_EXPORT int HcclAlltoAll(const void* from, uint64_t send_count, int send_type, void* to, uint64_t receive_count,
                              int receive_type, ferry_group* group, ferry_stream* stream) {
  uint64_t sends[MOST_RANKS], send_starts[MOST_RANKS], receives[MOST_RANKS], receive_starts[MOST_RANKS];
  for (uint32_t i = 0; i < MOST_RANKS; i++) {
    sends[i] = send_count;
    send_starts[i] = i * send_count;
    receives[i] = receive_count;
    receive_starts[i] = i * receive_count;
  }
  return HcclAlltoAllV(from, sends, send_starts, send_type, to, receives, receive_starts, receive_type, group, stream);
}

FERRY_EXPORT int HcclAlltoAllVC(const void* from, const uint64_t* matrix, int send_type, void* to, int receive_type,
                                ferry_group* group, ferry_stream* stream) {
  if (group == NULL) {
    return HCCL_E_PTR;
  }
  const uint32_t ranks = ferry_ranks(group), rank = ferry_rank(group);
  uint64_t sends[MOST_RANKS], send_starts[MOST_RANKS], receives[MOST_RANKS], receive_starts[MOST_RANKS];
  uint64_t sent = 0, received = 0;
  for (uint32_t i = 0; i < ranks; i++) {
    sends[i] = matrix[rank * ranks + i];
    receives[i] = matrix[i * ranks + rank];
    send_starts[i] = sent;
    receive_starts[i] = received;
    sent += sends[i];
    received += receives[i];
  }
  return HcclAlltoAllV(from, sends, send_starts, send_type, to, receives, receive_starts, receive_type, group, stream);
}

// One part of each rank's own length.
FERRY_EXPORT int HcclAllGatherV(const void* from, uint64_t count, void* to, const uint64_t* counts,
                                const uint64_t* starts, int type, ferry_group* group, ferry_stream* stream) {
  uint64_t sends[MOST_RANKS], send_starts[MOST_RANKS];
  for (uint32_t i = 0; i < MOST_RANKS; i++) {
    sends[i] = count;
    send_starts[i] = 0;
  }
  return HcclAlltoAllV(from, sends, send_starts, type, to, counts, starts, type, group, stream);
}

FERRY_EXPORT int HcclReduceScatterV(const void* from, const uint64_t* counts, const uint64_t* starts, void* to,
                                    uint64_t count, int type, int operation, ferry_group* group, ferry_stream* stream) {
  if (group == NULL) {
    return HCCL_E_PTR;
  }
  if (ferry_records(stream)) {
    ferry_note_refused("HcclReduceScatterV in a graph");
    return HCCL_E_NOT_SUPPORT;
  }
  const uint32_t ranks = ferry_ranks(group);
  const size_t bytes = count * ferry_size_of(type_of(type));
  char* parts = malloc(ranks * bytes + 1);
  if (parts == NULL) {
    return HCCL_E_OOM;
  }
  uint64_t receives[MOST_RANKS], receive_starts[MOST_RANKS];
  for (uint32_t i = 0; i < ranks; i++) {
    receives[i] = count;
    receive_starts[i] = i * count;
  }
  const int result = HcclAlltoAllV(from, counts, starts, type, parts, receives, receive_starts, type, group, stream);
  if (result == HCCL_SUCCESS) {
    for (uint32_t i = 1; i < ranks; i++) {
      ferry_reduce_into(parts, parts + i * bytes, count, type_of(type), reduction_of(operation));
    }
    memcpy(ferry_host_address(to), parts, bytes);
  }
  free(parts);
  return result;
}

// Settings and notes that change nothing here.
FERRY_EXPORT int HcclSetConfig(int setting, int value) {
  (void)setting, (void)value;
  return HCCL_SUCCESS;
}
