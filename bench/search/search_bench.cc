// Measures search: how long files take to become searchable, how long a question takes, and how good the answers are.
//
//   search_bench files COUNT           COUNT small Markdown files: time until they are found, then 200 questions
//   search_bench folder DIR QUESTIONS  the files of a folder, and a question in each line of a file
//   search_bench scale DIR QUESTIONS   the same, with vectors that are made up: real ones of 100,000 chunks take an
//   hour.
//                                      Texts and the embeddings of questions are real, so the time of a search is
//   search_bench cranfield DIR         nDCG@10 of the Cranfield collection (cran.all.1400, cran.qry, cranqrel in DIR)
//
// With a model installed, everything is also embedded, and the same questions are asked with it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "context/search.h"
#include "embed/embedder.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "store/store.h"

namespace {

using namespace warren;  // NOLINT: a program, not a header

template <class T>
T must(Result<T> result) {
  if (result.ok()) {
    if constexpr (std::is_void_v<T>) return;
    else return std::move(result).take_value();
  }
  fmt::print(stderr, "search_bench: {}\n", result.error().message());
  std::exit(1);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Scratch {
  Scratch() {
    char name[] = "/tmp/search-bench-XXXXXX";
    if (::mkdtemp(name) == nullptr) std::exit(1);
    path = name;
  }
  ~Scratch() {
    for (const char* file : {"a.db", "a.index.db"}) {
      for (const char* suffix : {"", "-wal", "-shm"}) {
        remove_host_file(path + "/" + file + suffix).ignore("a temporary file");
      }
    }
    ::rmdir(path.c_str());
  }
  std::string path;
};

struct Document {
  std::string path;
  std::string text;
};

struct Question {
  std::string text;
  std::map<std::string, int> grades;  // by path; 1 to 4, the best is 4
};

std::unique_ptr<Agent> make_agent(const Scratch& scratch, const std::vector<Document>& documents, Clock& clock) {
  std::string file = scratch.path + "/a.db";
  must(Store::open(file, {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock)).reset();
  auto agent = must(Agent::open({.id_or_path = file, .durability = Durability::kProcess}, clock));
  for (std::size_t at = 0; at < documents.size();) {
    auto change = must(agent->store().begin_write());
    for (std::size_t end = std::min(at + 1000, documents.size()); at < end; ++at) {
      must(write_file(agent->fs(), documents[at].path, as_bytes(documents[at].text)));
    }
    must(change.commit());
  }
  return agent;
}

struct Quality {
  double graded = 0;
  double binary = 0;
};

Quality ndcg_at_10(const Question& question, const std::vector<std::string>& found) {
  auto sum = [](const std::vector<int>& grades, bool is_binary) {
    double total = 0;
    for (std::size_t rank = 0; rank < std::min<std::size_t>(grades.size(), 10); ++rank) {
      double gain = is_binary ? (grades[rank] > 0 ? 1 : 0) : grades[rank];
      total += gain / std::log2(static_cast<double>(rank) + 2);
    }
    return total;
  };
  std::vector<int> got;
  for (const std::string& path : found) got.push_back(question.grades.contains(path) ? question.grades.at(path) : 0);
  std::vector<int> ideal;
  for (const auto& [path, grade] : question.grades) ideal.push_back(grade);
  std::ranges::sort(ideal, std::greater<>());
  return {sum(got, false) / sum(ideal, false), sum(got, true) / sum(ideal, true)};
}

void ask(ContextIndex& index, const std::vector<Question>& questions, std::string_view how) {
  std::vector<double> times;
  Quality mean;
  std::size_t graded = 0;
  for (const Question& question : questions) {
    auto start = std::chrono::steady_clock::now();
    SearchAnswer answer = must(index.search({.text = question.text, .limit = 10, .per_file_max = 1}));
    times.push_back(milliseconds_since(start));
    if (question.grades.empty()) continue;
    std::vector<std::string> paths;
    for (const SearchHit& hit : answer.hits) paths.push_back(hit.path);
    Quality quality = ndcg_at_10(question, paths);
    mean.graded += quality.graded;
    mean.binary += quality.binary;
    ++graded;
  }
  std::ranges::sort(times);
  fmt::print("{:<18} median {:.2f} ms, 95th percentile {:.2f} ms", how, times[times.size() / 2],
             times[times.size() * 95 / 100]);
  if (graded > 0) {
    auto count = static_cast<double>(graded);
    fmt::print(", nDCG@10 {:.3f} (binary {:.3f})", mean.graded / count, mean.binary / count);
  }
  fmt::print("\n");
}

enum class Vectors { kReal, kMadeUp };

// Embeds questions by a model, and makes up a direction for any other text.
class ScaleEmbedder final : public Embedder {
 public:
  explicit ScaleEmbedder(Embedder& real) : real_(real), model_("made up beside " + real.model()) {}

  const std::string& model() const override { return model_; }
  std::size_t dimensions() const override { return real_.dimensions(); }
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole role) override {
    if (role == TextRole::kQuery) return real_.embed(texts, role);
    std::vector<std::vector<float>> vectors;
    for (std::string_view text : texts) {
      std::mt19937 random(static_cast<std::mt19937::result_type>(std::hash<std::string_view>()(text)));
      std::normal_distribution<float> normal;
      std::vector<float> numbers(dimensions());
      float square = 0;
      for (float& number : numbers) {
        number = normal(random);
        square += number * number;
      }
      for (float& number : numbers) number /= std::sqrt(square);
      vectors.push_back(std::move(numbers));
    }
    return vectors;
  }

 private:
  Embedder& real_;
  std::string model_;
};

void measure(const std::vector<Document>& documents, const std::vector<Question>& questions,
             Vectors vectors = Vectors::kReal) {
  SystemClock clock;
  Scratch scratch;
  auto agent = make_agent(scratch, documents, clock);
  auto start = std::chrono::steady_clock::now();
  auto index = must(ContextIndex::open(*agent, {}, clock));
  must(index->catch_up());
  double indexing = milliseconds_since(start);
  IndexStatus status = must(index->status());
  fmt::print("{} files, {} chunks: searchable after {:.2f} s, index {:.1f} MB\n", status.files, status.chunks,
             indexing / 1000, static_cast<double>(status.bytes) / 1e6);
  ask(*index, questions, "words");
  index.reset();
  Result<std::unique_ptr<Embedder>> embedder = open_embedder(EmbedderOptions{});
  if (!embedder.ok() || *embedder == nullptr) {
    fmt::print("meaning            not measured: {}\n", embedder.ok() ? "none" : embedder.error().message());
    return;
  }
  ContextOptions options;
  ScaleEmbedder made_up(**embedder);
  options.embedder = vectors == Vectors::kReal ? embedder->get() : &made_up;
  index = must(ContextIndex::open(*agent, options, clock));
  start = std::chrono::steady_clock::now();
  std::size_t embedded = must(index->embed_some(std::chrono::hours(10)));
  fmt::print("{} texts {} in {:.1f} s\n", embedded,
             vectors == Vectors::kReal ? "embedded" : "given vectors that are made up",
             milliseconds_since(start) / 1000);
  must(index->search({.text = "warm up"}));
  ask(*index, questions, "words and meaning");
}

// Files.

std::string made_up_words(std::mt19937& random, int count) {
  // Word frequencies of natural text: the n-th word is about as frequent as 1/n.
  std::uniform_real_distribution<double> uniform(0, 1);
  std::string text;
  for (int i = 0; i < count; ++i) {
    auto rank = static_cast<int>(std::pow(20'000.0, uniform(random)));
    text += fmt::format("w{}{}", rank, i % 12 == 11 ? ".\n" : " ");
  }
  return text;
}

void measure_files(std::size_t count) {
  std::mt19937 random(7);
  std::vector<Document> documents;
  for (std::size_t i = 0; i < count; ++i) {
    documents.push_back(
        {fmt::format("/notes/{}/{}.md", i % 100, i),
         fmt::format("# Note {}\n\n{}\n\n## More\n\n{}\n", i, made_up_words(random, 90), made_up_words(random, 90))});
  }
  std::vector<Question> questions;
  for (int i = 0; i < 200; ++i) questions.push_back({.text = made_up_words(random, 6), .grades = {}});
  measure(documents, questions);
}

// A folder, so that rivals can be given the same files.

void measure_folder(const std::string& dir, const std::string& asked, Vectors vectors) {
  std::vector<Document> documents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    documents.push_back(
        {entry.path().string().substr(dir.size()), must(read_host_file(entry.path().string(), std::size_t{64} << 20))});
  }
  std::ranges::sort(documents, {}, &Document::path);
  std::vector<Question> questions;
  std::ifstream in(asked);
  for (std::string line; std::getline(in, line);) questions.push_back({.text = line, .grades = {}});
  if (documents.empty() || questions.empty()) {
    fmt::print(stderr, "search_bench: no files in {}, or no questions in {}\n", dir, asked);
    std::exit(1);
  }
  measure(documents, questions, vectors);
}

// Cranfield: fields begin with a line ".X"; .I begins a document.

std::vector<std::map<char, std::string>> read_fields(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    fmt::print(stderr, "search_bench: cannot read {}\n", path);
    std::exit(1);
  }
  std::vector<std::map<char, std::string>> records;
  char field = ' ';
  for (std::string line; std::getline(in, line);) {
    if (line.size() >= 2 && line[0] == '.' && line[1] >= 'A' && line[1] <= 'Z') {
      field = line[1];
      if (field == 'I') records.emplace_back();
      continue;
    }
    if (!records.empty()) records.back()[field] += line + "\n";
  }
  return records;
}

void measure_cranfield(const std::string& dir) {
  std::vector<Document> documents;
  for (auto& fields : read_fields(dir + "/cran.all.1400")) {
    std::string title = fields['T'];
    std::ranges::replace(title, '\n', ' ');
    documents.push_back({fmt::format("/{}.md", documents.size() + 1), fmt::format("# {}\n\n{}", title, fields['W'])});
  }
  std::vector<Question> questions;
  for (auto& fields : read_fields(dir + "/cran.qry")) questions.push_back({.text = fields['W'], .grades = {}});
  std::ifstream judged(dir + "/cranqrel");
  // The question's position, the document, and how relevant it is: 1 the most, 4 the least, -1 not at all.
  for (std::size_t question = 0, document = 0; judged >> question >> document;) {
    int grade = 0;
    judged >> grade;
    if (question < 1 || question > questions.size() || grade < 1 || grade > 4) continue;
    questions[question - 1].grades[fmt::format("/{}.md", document)] = 5 - grade;
  }
  measure(documents, questions);
}

}  // namespace

int main(int argc, char** argv) {
  std::string what = argc >= 3 ? argv[1] : "";
  if (what == "folder" && argc == 4) measure_folder(argv[2], argv[3], Vectors::kReal);
  else if (what == "scale" && argc == 4) measure_folder(argv[2], argv[3], Vectors::kMadeUp);
  else if (what == "files" && argc == 3) measure_files(static_cast<std::size_t>(std::atoi(argv[2])));
  else if (what == "cranfield" && argc == 3) measure_cranfield(argv[2]);
  else {
    fmt::print(stderr,
               "usage: search_bench files COUNT | folder DIR QUESTIONS | scale DIR QUESTIONS | cranfield DIR\n");
    return 2;
  }
  return 0;
}
