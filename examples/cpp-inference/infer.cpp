// Run a TorchScript model on an accelerator: infer DEVICE MODEL EXPECTED
#include <torch/script.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#ifdef SIMULATED_DEVICE
#include "simulated_device.h"
#endif

int main(int argc, const char* argv[]) {
  if (argc != 4) {
    std::cerr << "usage: infer DEVICE MODEL EXPECTED\n";
    return 2;
  }
  const std::string device = argv[1];
  try {
    if (device != "cpu") {
      // The model was saved on "DEVICE:0". Without this name, loading it fails: torch knows the device as privateuseone.
      c10::register_privateuse1_backend(device);
    }
#ifdef SIMULATED_DEVICE
    if (device != "cpu") {
      start_simulated_device(device);
    }
#endif
    torch::InferenceMode guard;
    torch::jit::Module model = torch::jit::load(argv[2]);
    const torch::Tensor input = torch::linspace(-1, 1, 3 * 16 * 16).reshape({1, 3, 16, 16}).to(torch::Device(device));
    const torch::Tensor output = model.forward({input}).toTensor();
    const torch::Tensor result = output.to(torch::kCPU).flatten();

    std::ifstream file(argv[3]);
    std::vector<float> expected;
    for (float value; file >> value;) {
      expected.push_back(value);
    }
    const torch::Tensor wanted = torch::tensor(expected);
    if (wanted.sizes() != result.sizes()) {
      std::cerr << "the model has " << result.numel() << " results, " << argv[3] << " has " << wanted.numel() << "\n";
      return 1;
    }
    const double difference = (result - wanted).abs().max().item<double>();
    std::cout << "ran on " << output.device() << ", largest difference from Python: " << difference << "\n";
    return difference <= 1e-5 ? 0 : 1;
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
