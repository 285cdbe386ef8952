// Takes the place of libtorch_musa.so: when it is loaded it starts the card of `torchferry rehearse`, as the plugin does its own.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "the simulated card does not start: %s\n", why);
  std::exit(1);
}

const int started = [] {
  void* library = dlopen(SIMULATED_DEVICE, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    give_up(dlerror());
  }
  using Start = long (*)(const char* key, const char* name, const char* title, const char* visible, int devices, int same);
  const auto start = reinterpret_cast<Start>(dlsym(library, "ferry_start"));
  if (start == nullptr || start("PrivateUse1", "musa", "simulated", "", 1, 1) < 0) {
    give_up("ferry_start");
  }
  return 1;
}();

}  // namespace
