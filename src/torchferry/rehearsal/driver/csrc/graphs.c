// Graphs: work that is recorded once and done as often as it is asked for. What a piece of work is, only the one who
// records it knows; the order is kept here.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

typedef struct {
  ferry_work run;
  ferry_drop drop;
  void* argument;
} piece;

struct ferry_graph {
  piece* pieces;
  size_t count, room;
  uint32_t number;
};

// A stream of the graph that is recorded; the first one is that on which recording began.
typedef struct {
  const ferry_stream* stream;
  uint32_t last;  // the mark of the event that it recorded, if nothing came after it
  bool joined;    // another stream waited for that
} member;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ferry_graph* recorded;  // the one that work goes into
static member* members;
static size_t member_count, member_room;
static uint32_t last_mark, first_mark;  // of all, and of this graph
static bool came_back;                  // the first stream waited for another one
static atomic_int recording, recorded_device = -1;
static void (*before_begin)(void), (*before_end)(void);

const atomic_int* ferry_recording(void) { return &recording; }

void ferry_watch_recording(void (*begins)(void), void (*ends)(void)) {
  before_begin = begins;
  before_end = ends;
}

static bool is_recording(void) { return atomic_load_explicit(&recording, memory_order_relaxed) != 0; }

// With the lock held, as all that follows with members.
static member* member_of(const ferry_stream* stream) {
  for (size_t i = 0; i < member_count; i++) {
    if (members[i].stream == stream) {
      return &members[i];
    }
  }
  return NULL;
}

static bool add_member(const ferry_stream* stream) {
  member* grown = ferry_grown(members, member_count, &member_room, sizeof *grown);
  if (grown == NULL) {
    return false;
  }
  members = grown;
  members[member_count++] = (member){stream, 0, false};
  return true;
}

bool ferry_records(const ferry_stream* stream) {
  if (!is_recording()) {
    return false;
  }
  pthread_mutex_lock(&lock);
  const bool belongs = member_of(stream) != NULL;
  pthread_mutex_unlock(&lock);
  return belongs;
}

ferry_graph* ferry_recorded(void) { return recorded; }

int ferry_recorded_device(void) { return atomic_load(&recorded_device); }

ferry_status ferry_begin_graph(const ferry_stream* stream) {
  static atomic_uint last;
  ferry_graph* graph = calloc(1, sizeof *graph);
  if (graph == NULL) {
    return FERRY_OUT_OF_MEMORY;
  }
  graph->number = atomic_fetch_add(&last, 1) + 1;
  int device = -1;
  (void)ferry_current_device(&device);
  if (before_begin != NULL && !is_recording()) {
    before_begin();
  }
  pthread_mutex_lock(&lock);
  const bool busy = recorded != NULL;
  const bool begun = !busy && add_member(stream);
  if (begun) {
    recorded = graph;
    first_mark = last_mark + 1;
    came_back = false;
    atomic_store(&recorded_device, device);
    atomic_store(&recording, graph->number);
  }
  pthread_mutex_unlock(&lock);
  if (!begun) {
    free(graph);
  }
  if (busy) {
    ferry_say("work is recorded into a graph already");
    return FERRY_BAD_ARGUMENT;
  }
  return begun ? FERRY_OK : FERRY_OUT_OF_MEMORY;
}

// A stream that joined has to come back: its last work is an event for which another stream waited.
static ferry_status check_joined(void) {
  for (size_t i = 1; i < member_count; i++) {
    if (members[i].last == 0 || !members[i].joined) {
      ferry_say("stream %d joined the graph that is recorded and did not come back: %s",
                ferry_stream_number(members[i].stream),
                members[i].last == 0 ? "record an event after its last work, and let the graph's stream wait for it"
                                     : "let the graph's stream wait for the event that it recorded last");
      return FERRY_UNJOINED;
    }
  }
  if (member_count > 1 && !came_back) {
    ferry_say("the stream on which recording began waits for none of those that joined the graph");
    return FERRY_UNJOINED;
  }
  return FERRY_OK;
}

ferry_status ferry_end_recording(const ferry_stream* stream, ferry_graph** graph) {
  if (before_end != NULL && ferry_records(stream)) {
    before_end();
  }
  pthread_mutex_lock(&lock);
  const bool mine = recorded != NULL && members[0].stream == stream;
  const ferry_status status = mine ? check_joined() : FERRY_BAD_ARGUMENT;
  if (mine) {
    *graph = recorded;
    recorded = NULL;
    member_count = 0;
    atomic_store(&recorded_device, -1);
    atomic_store(&recording, 0);
  }
  pthread_mutex_unlock(&lock);
  if (!mine) {
    ferry_say("no work of this stream is recorded");
  } else if (status != FERRY_OK) {
    (void)ferry_drop_graph(*graph);
    *graph = NULL;
  }
  return status;
}

bool ferry_record_work(ferry_work run, ferry_drop drop, void* argument, const ferry_stream* stream) {
  pthread_mutex_lock(&lock);
  ferry_graph* graph = recorded;
  member* on = member_of(stream);
  piece* grown = NULL;
  if (graph != NULL && on != NULL) {
    grown = ferry_grown(graph->pieces, graph->count, &graph->room, sizeof *grown);
  }
  if (grown != NULL) {
    graph->pieces = grown;
    graph->pieces[graph->count++] = (piece){run, drop, argument};
    on->last = 0;
  }
  pthread_mutex_unlock(&lock);
  return grown != NULL;
}

bool ferry_record_copy(ferry_work run, const void* argument, size_t bytes, const ferry_stream* stream) {
  void* kept = malloc(bytes);
  if (kept == NULL) {
    return false;
  }
  memcpy(kept, argument, bytes);
  if (!ferry_record_work(run, free, kept, stream)) {
    free(kept);
    return false;
  }
  return true;
}

uint32_t ferry_mark(const ferry_stream* stream) {
  if (!is_recording()) {
    return 0;
  }
  pthread_mutex_lock(&lock);
  member* on = member_of(stream);
  if (on != NULL) {
    on->last = ++last_mark;
    on->joined = false;
  }
  const uint32_t mark = on == NULL ? 0 : on->last;
  pthread_mutex_unlock(&lock);
  return mark;
}

bool ferry_is_marked(uint32_t mark) {
  if (mark == 0 || !is_recording()) {
    return false;
  }
  pthread_mutex_lock(&lock);
  const bool now = recorded != NULL && mark >= first_mark;
  pthread_mutex_unlock(&lock);
  return now;
}

ferry_status ferry_wait_for_mark(const ferry_stream* stream, uint32_t mark, bool happened) {
  if (!is_recording()) {
    return FERRY_OK;
  }
  ferry_status status = FERRY_OK;
  pthread_mutex_lock(&lock);
  member* waiting = member_of(stream);
  if (mark >= first_mark && recorded != NULL) {
    for (size_t i = 0; i < member_count; i++) {
      members[i].joined = members[i].joined || members[i].last == mark;
    }
    if (waiting == NULL) {
      status = add_member(stream) ? FERRY_OK : FERRY_OUT_OF_MEMORY;
    } else {
      waiting->last = 0;
      came_back = came_back || waiting == members;
    }
  } else if (waiting != NULL && happened) {
    ferry_say("a stream of the graph that is recorded would wait for an event that is not in the graph");
    status = FERRY_UNRECORDED;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

ferry_status ferry_run_graph(const ferry_graph* graph) {
  if (graph == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < graph->count; i++) {
    if (!graph->pieces[i].run(graph->pieces[i].argument)) {
      return FERRY_SYSTEM;
    }
  }
  return FERRY_OK;
}

uint32_t ferry_graph_number(const ferry_graph* graph) { return graph == NULL ? 0 : graph->number; }

ferry_status ferry_drop_graph(ferry_graph* graph) {
  if (graph == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < graph->count; i++) {
    graph->pieces[i].drop(graph->pieces[i].argument);
  }
  free(graph->pieces);
  free(graph);
  return FERRY_OK;
}
