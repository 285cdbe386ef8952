// Graphs: work that is recorded once and done as often as it is asked for. What a piece of work is, only the one who
// records it knows; the order is kept here.
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ferry_graph* recorded;  // the one that work goes into
static const ferry_stream* recording_stream;
static atomic_int recording;

const atomic_int* ferry_recording(void) { return &recording; }

bool ferry_records(const ferry_stream* stream) {
  return atomic_load_explicit(&recording, memory_order_relaxed) != 0 && stream == recording_stream;
}

ferry_graph* ferry_recorded(void) { return recorded; }

ferry_status ferry_begin_graph(const ferry_stream* stream) {
  static atomic_uint last;
  ferry_graph* graph = calloc(1, sizeof *graph);
  if (graph == NULL) {
    return FERRY_OUT_OF_MEMORY;
  }
  graph->number = atomic_fetch_add(&last, 1) + 1;
  pthread_mutex_lock(&lock);
  const bool busy = recorded != NULL;
  if (!busy) {
    recorded = graph;
    recording_stream = stream;
    atomic_store(&recording, graph->number);
  }
  pthread_mutex_unlock(&lock);
  if (busy) {
    free(graph);
    ferry_say("work is recorded into a graph already");
  }
  return busy ? FERRY_BAD_ARGUMENT : FERRY_OK;
}

ferry_status ferry_end_recording(const ferry_stream* stream, ferry_graph** graph) {
  pthread_mutex_lock(&lock);
  const bool mine = recorded != NULL && stream == recording_stream;
  if (mine) {
    *graph = recorded;
    recorded = NULL;
    recording_stream = NULL;
    atomic_store(&recording, 0);
  }
  pthread_mutex_unlock(&lock);
  if (!mine) {
    ferry_say("no work of this stream is recorded");
  }
  return mine ? FERRY_OK : FERRY_BAD_ARGUMENT;
}

bool ferry_record_work(ferry_work run, ferry_drop drop, void* argument) {
  pthread_mutex_lock(&lock);
  ferry_graph* graph = recorded;
  bool kept = graph != NULL;
  if (kept && graph->count == graph->room) {
    const size_t room = graph->room == 0 ? 64 : 2 * graph->room;
    piece* grown = realloc(graph->pieces, room * sizeof *grown);
    kept = grown != NULL;
    graph->pieces = kept ? grown : graph->pieces;
    graph->room = kept ? room : graph->room;
  }
  if (kept) {
    graph->pieces[graph->count++] = (piece){run, drop, argument};
  }
  pthread_mutex_unlock(&lock);
  return kept;
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
