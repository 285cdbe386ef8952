// What the machine is, which device a thread uses, and what went wrong.
#include "machine.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// --- settings: few, written before any thread of the plugin's reads them ---

typedef struct {
  char* key;
  int64_t number;
  char* text;
} setting;

static setting settings[64];
static size_t setting_count;

static setting* find_setting(const char* key) {
  for (size_t i = 0; i < setting_count; i++) {
    if (strcmp(settings[i].key, key) == 0) {
      return &settings[i];
    }
  }
  return NULL;
}

static setting* make_setting(const char* key) {
  setting* entry = find_setting(key);
  if (entry == NULL && setting_count < sizeof settings / sizeof settings[0]) {
    entry = &settings[setting_count++];
    entry->key = strdup(key);
  }
  return entry;
}

void ferry_set_number(const char* key, int64_t value) {
  setting* entry = make_setting(key);
  if (entry != NULL) {
    entry->number = value;
  }
}

void ferry_set_text(const char* key, const char* value) {
  setting* entry = make_setting(key);
  if (entry != NULL) {
    entry->text = strdup(value);  // the one before is kept: somebody may still read it
  }
}

int64_t ferry_number(const char* key, int64_t otherwise) {
  const setting* entry = find_setting(key);
  return entry == NULL ? otherwise : entry->number;
}

const char* ferry_text(const char* key, const char* otherwise) {
  const setting* entry = find_setting(key);
  return entry == NULL || entry->text == NULL ? otherwise : entry->text;
}

// --- the device of a thread ---

static _Thread_local int current_device = -1;
static char contexts[FERRY_MOST_DEVICES];  // their addresses are the handles

static int cards[FERRY_MOST_DEVICES];  // of the machine, by the number that this process has for them

// The list of visible devices ends at the first entry that is none, and behind the digits of one that has more, as
// backends/visible_cards.py reads it. Where numbers have to rise, one that does not leaves no device at all.
static int visible_devices(const char* list, int installed, int rising) {
  int count = 0;
  long before = -1;
  while (*list >= '0' && *list <= '9' && count < FERRY_MOST_DEVICES) {
    char* end = NULL;
    const long index = strtol(list, &end, 10);
    if (rising && index <= before) {
      return 0;
    }
    if (index >= installed || (!rising && count == installed)) {
      break;
    }
    cards[count++] = (int)index;
    before = index;
    if (*end != ',') {
      break;
    }
    list = end + 1;
  }
  return count;
}

static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static int device_count;

static void look_for_devices(void) {
  int installed = (int)ferry_number("devices", 1);
  if (installed > FERRY_MOST_DEVICES) {
    installed = FERRY_MOST_DEVICES;
  }
  for (int i = 0; i < FERRY_MOST_DEVICES; i++) {
    cards[i] = i;
  }
  const char* variable = ferry_text("visible_variable", "");
  const char* list = *variable == '\0' ? NULL : getenv(variable);
  device_count = list == NULL ? installed : visible_devices(list, installed, ferry_number("visible_rising", 0) != 0);
}

int ferry_device_count(void) {
  pthread_once(&devices_once, look_for_devices);
  return device_count;
}

int ferry_current_card(void) { return current_device < 0 ? -1 : cards[current_device]; }

ferry_status ferry_use_device(int device) {
  if (device < 0 || device >= ferry_device_count()) {
    ferry_say("there is no device %d: this process sees %d", device, ferry_device_count());
    return FERRY_BAD_DEVICE;
  }
  current_device = device;
  return FERRY_OK;
}

ferry_status ferry_current_device(int* device) {
  if (current_device < 0) {
    return FERRY_NO_CONTEXT;  // no message: plugins ask in order to learn it
  }
  *device = current_device;
  return FERRY_OK;
}

static _Atomic int default_device = -1;

void ferry_set_default_device(int device) { default_device = device; }

ferry_status ferry_needed_device(int* device) {
  if (current_device < 0 && default_device >= 0) {
    const ferry_status status = ferry_use_device(default_device);
    if (status != FERRY_OK) {
      return status;
    }
  }
  return ferry_current_device(device);
}

void* ferry_context_of(int device) { return &contexts[device]; }

int ferry_device_of_context(const void* context) {
  const char* pointer = context;
  return pointer >= contexts && pointer < contexts + FERRY_MOST_DEVICES ? (int)(pointer - contexts) : -1;
}

double ferry_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// --- what went wrong ---

static _Thread_local char said[1024];

void ferry_say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(said, sizeof said, format, arguments);
  va_end(arguments);
}

void ferry_say_text(const char* text) { ferry_say("%s", text); }

// Told once, as the drivers do it.
const char* ferry_take_said(void) {
  static _Thread_local char taken[sizeof said];
  memcpy(taken, said, sizeof said);
  said[0] = '\0';
  return taken;
}

void* ferry_grown(void* items, size_t count, size_t* room, size_t bytes) {
  if (count < *room) {
    return items;
  }
  const size_t wanted = *room == 0 ? 64 : 2 * *room;
  void* grown = realloc(items, wanted * bytes);
  if (grown != NULL) {
    *room = wanted;
  }
  return grown;
}

typedef struct {
  const char* name;  // of the function that was called: a constant
  long calls;
} refusal;

static refusal refusals[1024];
static size_t refusal_count;
static pthread_mutex_t refusal_lock = PTHREAD_MUTEX_INITIALIZER;

void ferry_note_refused(const char* name) {
  ferry_say("%s is not simulated", name);
  ferry_note(name);
}

void ferry_note(const char* name) {
  pthread_mutex_lock(&refusal_lock);
  size_t i = 0;
  while (i < refusal_count && strcmp(refusals[i].name, name) != 0) {
    i++;
  }
  if (i < sizeof refusals / sizeof refusals[0]) {
    refusals[i].name = name;
    refusals[i].calls++;
    refusal_count = i == refusal_count ? i + 1 : refusal_count;
  }
  pthread_mutex_unlock(&refusal_lock);
}

const char* ferry_refused(void) {
  static char text[65536];
  size_t used = 0;
  pthread_mutex_lock(&refusal_lock);
  text[0] = '\0';
  for (size_t i = 0; i < refusal_count && used < sizeof text; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "%s %ld\n", refusals[i].name, refusals[i].calls);
  }
  pthread_mutex_unlock(&refusal_lock);
  return text;
}
