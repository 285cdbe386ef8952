// A simulated card in a C++ program: the library that `torchferry rehearse` uses. Left out of a build for a true card.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

inline void start_simulated_device(const std::string& name) {
  void* library = dlopen(SIMULATED_DEVICE, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw std::runtime_error(dlerror());
  }
  using Start = long (*)(const char* key, const char* name, const char* title, const char* visible, int devices, int same);
  const auto start = reinterpret_cast<Start>(dlsym(library, "ferry_start"));
  if (start == nullptr || start("PrivateUse1", name.c_str(), "simulated", "", 1, 1) < 0) {
    throw std::runtime_error("the simulated device does not start");
  }
}
