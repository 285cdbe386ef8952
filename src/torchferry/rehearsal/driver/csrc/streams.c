// Streams and events. Work is done when the call that asks for it returns, so a stream is a number and an event a time.
#include <stdatomic.h>
#include <stdlib.h>

#include "machine.h"

static _Atomic(ferry_order_watcher) order_watcher;

void ferry_watch_order(ferry_order_watcher watcher) { atomic_store(&order_watcher, watcher); }

void ferry_tell_order(int what, const void* first, const void* second, size_t bytes) {
  const ferry_order_watcher watcher = atomic_load_explicit(&order_watcher, memory_order_acquire);
  if (watcher != NULL) {
    watcher(what, first, second, bytes);
  }
}

struct ferry_stream {
  int32_t number;
};

struct ferry_event {
  _Atomic double seconds;  // 0: never recorded
  atomic_uint mark;        // in a graph
  uint32_t flags;          // the vendor's own, as it made the event
};

ferry_status ferry_make_stream(ferry_stream** stream) {
  static atomic_int last;
  int device = 0;
  const ferry_status status = ferry_needed_device(&device);
  if (stream == NULL || status != FERRY_OK) {
    return stream == NULL ? FERRY_BAD_ARGUMENT : status;
  }
  *stream = malloc(sizeof **stream);
  if (*stream == NULL) {
    return FERRY_OUT_OF_MEMORY;
  }
  (*stream)->number = atomic_fetch_add(&last, 1) + 1;
  return FERRY_OK;
}

ferry_status ferry_end_stream(ferry_stream* stream) {
  const ferry_status status = stream == NULL ? FERRY_BAD_ARGUMENT : ferry_ask_stream(stream);
  if (status == FERRY_OK) {
    free(stream);
  }
  return status;
}

int32_t ferry_stream_number(const ferry_stream* stream) { return stream == NULL ? 0 : stream->number; }

ferry_status ferry_make_event(ferry_event** event) {
  if (event == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  *event = calloc(1, sizeof **event);
  return *event == NULL ? FERRY_OUT_OF_MEMORY : FERRY_OK;
}

void ferry_set_event_flags(ferry_event* event, uint32_t flags) { event->flags = flags; }

uint32_t ferry_event_flags(const ferry_event* event) { return event == NULL ? 0 : event->flags; }

ferry_status ferry_end_event(ferry_event* event) {
  ferry_tell_order(FERRY_EVENT_GONE, event, NULL, 0);
  free(event);
  return event == NULL ? FERRY_BAD_ARGUMENT : FERRY_OK;
}

ferry_status ferry_record(ferry_event* event, const ferry_stream* stream) {
  if (event == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  atomic_store(&event->mark, ferry_mark(stream));
  atomic_store(&event->seconds, ferry_seconds());
  ferry_tell_order(FERRY_RECORDED_EVENT, event, stream, 0);
  return FERRY_OK;
}

ferry_status ferry_wait(const ferry_stream* stream, const ferry_event* event) {
  if (event == NULL) {
    return FERRY_BAD_ARGUMENT;
  }
  ferry_tell_order(FERRY_STREAM_WAITS, stream, event, 0);
  return ferry_wait_for_mark(stream, atomic_load(&event->mark), atomic_load(&event->seconds) != 0);
}

static ferry_status ask(const char* what, bool is_recorded) {
  if (is_recorded) {
    ferry_say("%s cannot be asked or waited for while work of it is recorded into a graph", what);
  }
  return is_recorded ? FERRY_RECORDED : FERRY_OK;
}

ferry_status ferry_ask_stream(const ferry_stream* stream) { return ask("the stream", ferry_records(stream)); }

ferry_status ferry_ask_event(const ferry_event* event) {
  return event == NULL ? FERRY_BAD_ARGUMENT : ask("the event", ferry_is_marked(atomic_load(&event->mark)));
}

ferry_status ferry_ask_device(void) {
  const int recorded = ferry_recorded_device();
  int device = 0;
  return ask("the device", recorded >= 0 && ferry_current_device(&device) == FERRY_OK && device == recorded);
}

static ferry_status told(ferry_status status, int what, const void* which) {
  if (status == FERRY_OK) {
    ferry_tell_order(what, which, NULL, 0);
  }
  return status;
}

ferry_status ferry_wait_for_stream(const ferry_stream* stream) {
  return told(ferry_ask_stream(stream), FERRY_HOST_HAS_STREAM, stream);
}

ferry_status ferry_wait_for_event(const ferry_event* event) {
  return told(ferry_ask_event(event), FERRY_HOST_HAS_EVENT, event);
}

ferry_status ferry_wait_for_device(void) {
  int device = 0;
  const ferry_status status = ferry_ask_device();
  return status == FERRY_OK && ferry_current_device(&device) == FERRY_OK
             ? told(status, FERRY_HOST_HAS_DEVICE, (const void*)(intptr_t)device)
             : status;
}

ferry_status ferry_elapsed(const ferry_event* start, const ferry_event* end, double* milliseconds) {
  if (start == NULL || end == NULL || milliseconds == NULL || atomic_load(&start->seconds) == 0 ||
      atomic_load(&end->seconds) == 0) {
    ferry_say("an event was not recorded");
    return FERRY_BAD_ARGUMENT;
  }
  *milliseconds = (atomic_load(&end->seconds) - atomic_load(&start->seconds)) * 1e3;
  return FERRY_OK;
}

ferry_status ferry_time_of(const ferry_event* event, uint64_t* microseconds) {
  if (event == NULL || microseconds == NULL || atomic_load(&event->seconds) == 0) {
    ferry_say("the event was not recorded");
    return FERRY_BAD_ARGUMENT;
  }
  *microseconds = (uint64_t)(atomic_load(&event->seconds) * 1e6);
  return FERRY_OK;
}
