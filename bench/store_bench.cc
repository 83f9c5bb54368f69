// Warren's contender: the agent file through the C++ library.
//
// "power" commits survive a power cut, "process" commits survive a killed process (Durability in db/database.h);
// "batch" is 100 calls in one transaction.
#include <functional>
#include <memory>
#include <vector>

#include "bench_util.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/record/tool_calls.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "warren_agent.h"

namespace {

using namespace bench;  // NOLINT
using warren::Durability;

void fill(Agent& agent, int files) {
  std::string content(kFileBytes, 'x');
  agent.set_up(
      [&](int i) {
        vary(content, static_cast<std::uint64_t>(i));
        must(warren::write_file(agent.fs(), "/dir/f" + std::to_string(i), warren::as_bytes(content)));
      },
      files);
}

void write_file(benchmark::State& state, Durability durability) {
  Agent agent(durability);
  std::string content(kFileBytes, 'x');
  std::uint64_t i = 0;
  for (auto _ : state) {
    vary(content, ++i);
    must(warren::write_file(agent.fs(), "/f" + std::to_string(i), warren::as_bytes(content)));
  }
}
BENCHMARK_CAPTURE(write_file, warren_power, Durability::kPower)->UseRealTime();
BENCHMARK_CAPTURE(write_file, warren_process, Durability::kProcess)->UseRealTime();

void batch(benchmark::State& state, const std::function<void(Agent&, std::uint64_t)>& call) {
  Agent agent(Durability::kPower);
  std::uint64_t i = 0;
  for (auto _ : state) {
    auto unit = must(agent.store().begin_write());
    for (int n = 0; n < kBatch; ++n) call(agent, ++i);
    must(unit.commit());
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void write_file_batch(benchmark::State& state) {
  std::string content(kFileBytes, 'x');
  batch(state, [&](Agent& agent, std::uint64_t i) {
    vary(content, i);
    must(warren::write_file(agent.fs(), "/f" + std::to_string(i), warren::as_bytes(content)));
  });
}
BENCHMARK(write_file_batch)->Name("write_file/warren_batch")->UseRealTime();

void read_file(benchmark::State& state) {
  Agent agent(Durability::kPower);
  fill(agent, kFiles);
  std::uint64_t random = 1;
  for (auto _ : state) {
    std::string path = "/dir/f" + std::to_string(next_random(random) % kFiles);
    benchmark::DoNotOptimize(must(warren::read_file(agent.fs(), path)));
  }
}
BENCHMARK(read_file)->Name("read_file/warren")->UseRealTime();

void stat_file(benchmark::State& state) {
  Agent agent(Durability::kPower);
  fill(agent, kFiles);
  std::uint64_t random = 1;
  for (auto _ : state) {
    std::string path = "/dir/f" + std::to_string(next_random(random) % kFiles);
    benchmark::DoNotOptimize(must(warren::stat(agent.fs(), path)));
  }
}
BENCHMARK(stat_file)->Name("stat/warren")->UseRealTime();

void stat_deep(benchmark::State& state) {
  Agent agent(Durability::kPower);
  must(warren::write_file(agent.fs(), deep_path(), warren::as_bytes("x")));
  for (auto _ : state) benchmark::DoNotOptimize(must(warren::stat(agent.fs(), deep_path())));
}
BENCHMARK(stat_deep)->Name("stat_deep/warren")->UseRealTime();

void read_dir(benchmark::State& state) {
  Agent agent(Durability::kPower);
  fill(agent, kFiles);
  for (auto _ : state) benchmark::DoNotOptimize(must(warren::read_dir(agent.fs(), "/dir")));
}
BENCHMARK(read_dir)->Name("readdir_1000/warren")->UseRealTime();

void write_big(benchmark::State& state, Durability durability) {
  std::string content(kBigBytes, 'x');
  std::uint64_t i = 0;
  Agent agent(durability);
  for (auto _ : state) {
    state.PauseTiming();
    vary(content, ++i);
    state.ResumeTiming();
    must(warren::write_file(agent.fs(), "/big" + std::to_string(i), warren::as_bytes(content)));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBigBytes));
}
BENCHMARK_CAPTURE(write_big, warren_power, Durability::kPower)->UseRealTime()->Iterations(4);
BENCHMARK_CAPTURE(write_big, warren_process, Durability::kProcess)->UseRealTime()->Iterations(4);

void read_big(benchmark::State& state) {
  Agent agent(Durability::kPower);
  std::string content(kBigBytes, 'x');
  vary(content, 1);
  must(warren::write_file(agent.fs(), "/big", warren::as_bytes(content)));
  for (auto _ : state) benchmark::DoNotOptimize(must(warren::read_file(agent.fs(), "/big")));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBigBytes));
}
BENCHMARK(read_big)->Name("read_big/warren")->UseRealTime();

void pread_random(benchmark::State& state) {
  Agent agent(Durability::kPower);
  std::string content(kBigBytes, 'x');
  vary(content, 1);
  must(warren::write_file(agent.fs(), "/big", warren::as_bytes(content)));
  auto file = must(warren::File::open(agent.fs(), "/big", {}));
  std::vector<std::byte> out(kFileBytes);
  std::uint64_t random = 1;
  for (auto _ : state) {
    std::uint64_t offset = next_random(random) % (kBigBytes - kFileBytes);
    benchmark::DoNotOptimize(must(file->read_at(offset, out)));
  }
}
BENCHMARK(pread_random)->Name("pread_4k/warren")->UseRealTime();

void kv_set(benchmark::State& state, Durability durability) {
  Agent agent(durability);
  std::uint64_t i = 0;
  for (auto _ : state) {
    ++i;
    must(agent.store().kv().set("key" + std::to_string(i), "{\"v\":" + std::to_string(i) + "}"));
  }
}
BENCHMARK_CAPTURE(kv_set, warren_power, Durability::kPower)->UseRealTime();
BENCHMARK_CAPTURE(kv_set, warren_process, Durability::kProcess)->UseRealTime();

void kv_set_batch(benchmark::State& state) {
  batch(state, [](Agent& agent, std::uint64_t i) {
    must(agent.store().kv().set("key" + std::to_string(i), "{\"v\":" + std::to_string(i) + "}"));
  });
}
BENCHMARK(kv_set_batch)->Name("kv_set/warren_batch")->UseRealTime();

void kv_get(benchmark::State& state) {
  Agent agent(Durability::kPower);
  agent.set_up([&](int i) { must(agent.store().kv().set("key" + std::to_string(i), "{\"v\":1}")); }, kFiles);
  std::uint64_t random = 1;
  for (auto _ : state) {
    benchmark::DoNotOptimize(must(agent.store().kv().get("key" + std::to_string(next_random(random) % kFiles))));
  }
}
BENCHMARK(kv_get)->Name("kv_get/warren")->UseRealTime();

void record(Agent& agent) {
  must(agent.store().tools().record({.name = "search",
                                     .started_at = 1'700'000'000,
                                     .completed_at = 1'700'000'001,
                                     .parameters = R"({"query":"x"})",
                                     .result = R"({"hits":3})",
                                     .error = {},
                                     .duration_ns = {},
                                     .details = {}}));
}

void tool_record(benchmark::State& state, Durability durability) {
  Agent agent(durability);
  for (auto _ : state) record(agent);
}
BENCHMARK_CAPTURE(tool_record, warren_power, Durability::kPower)->UseRealTime();
BENCHMARK_CAPTURE(tool_record, warren_process, Durability::kProcess)->UseRealTime();

void tool_record_batch(benchmark::State& state) {
  batch(state, [](Agent& agent, std::uint64_t) { record(agent); });
}
BENCHMARK(tool_record_batch)->Name("tool_record/warren_batch")->UseRealTime();

void unlink_file(benchmark::State& state, Durability durability) {
  Agent agent(durability);
  int files = static_cast<int>(state.max_iterations);
  fill(agent, files);
  int i = 0;
  for (auto _ : state) must(warren::unlink(agent.fs(), "/dir/f" + std::to_string(i++)));
}
BENCHMARK_CAPTURE(unlink_file, warren_power, Durability::kPower)->UseRealTime()->Iterations(5000);
BENCHMARK_CAPTURE(unlink_file, warren_process, Durability::kProcess)->UseRealTime()->Iterations(5000);

}  // namespace
