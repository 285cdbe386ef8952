// Run a TorchScript model on the card: infer MODEL EXPECTED
#include <torch/script.h>

#include <fstream>
#include <iostream>
#include <vector>

int main(int argc, const char* argv[]) {
  if (argc != 3) {
    std::cerr << "usage: infer MODEL EXPECTED\n";
    return 2;
  }
  try {
    torch::InferenceMode guard;
    torch::jit::Module model = torch::jit::load(argv[1], torch::Device(torch::kCUDA));
    const torch::Tensor input = torch::linspace(-1, 1, 3 * 16 * 16).reshape({1, 3, 16, 16}).to("cuda");
    const torch::Tensor output = model.forward({input}).toTensor();
    const torch::Tensor result = output.to(torch::kCPU).flatten();

    std::ifstream file(argv[2]);
    std::vector<float> expected;
    for (float value; file >> value;) {
      expected.push_back(value);
    }
    const double difference = (result - torch::tensor(expected)).abs().max().item<double>();
    std::cout << "ran on " << output.device() << ", largest difference from Python: " << difference << "\n";
    return difference <= 1e-5 ? 0 : 1;
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << "\n";
    return 1;
  }
}
