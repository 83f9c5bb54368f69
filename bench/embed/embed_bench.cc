// Times the local embedder on one processor, for bench/embed/run.
//
//   embed_bench FOLDER
//
// Reads texts from standard input, one JSON string on each line. Prints for each kernel and each text one line of JSON:
// the kernel, the number of tokens, the milliseconds of the fastest of several rounds, and the vector. Then one for a
// batch of all texts on all processors, and one for the time that opening the model takes.
#include <algorithm>
#include <chrono>
#include <iostream>

#include <fmt/format.h>

#include "base/json.h"
#include "embed/local_embedder.h"

namespace {

using namespace warren;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

Json time_text(LocalEmbedder& embedder, const std::string& text) {
  constexpr int kRounds = 15;
  double fastest = 1e9;
  std::vector<float> vector;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = Clock::now();
    vector = embedder.embed({text}, TextRole::kPassage).value()[0];
    fastest = std::min(fastest, milliseconds_since(begin));
  }
  return {{"tokens", embedder.tokens_of(text, TextRole::kPassage).size()}, {"fastest", fastest}, {"vector", vector}};
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "usage: embed_bench FOLDER\n";
    return 2;
  }
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) texts.push_back(parse_json(line).value().get<std::string>());
  for (const EncoderKernel& kernel : encoder_kernels()) {
    if (!kernel.is_supported) continue;
    const auto begin = Clock::now();
    auto embedder = LocalEmbedder::open(words[1], kernel);
    if (!embedder.ok()) {
      std::cerr << embedder.error().message() << "\n";
      return 1;
    }
    std::cout << dump_json({{"kernel", kernel.name}, {"open", milliseconds_since(begin)}}) << "\n";
    for (const std::string& text : texts) {
      Json row = time_text(**embedder, text);
      row["kernel"] = kernel.name;
      std::cout << dump_json(row) << "\n";
    }
    std::vector<std::string_view> batch;
    for (int i = 0; i < 8; ++i) batch.insert(batch.end(), texts.begin(), texts.end());
    const auto batch_begin = Clock::now();
    const std::size_t made = (*embedder)->embed(batch, TextRole::kPassage).value().size();
    std::cout << dump_json({{"kernel", kernel.name}, {"batch", made}, {"total", milliseconds_since(batch_begin)}})
              << "\n";
  }
  return 0;
}
