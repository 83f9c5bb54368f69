#include "embed/local_embedder.h"

#include <filesystem>
#include <new>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "embed/model/tiny_model_testing.h"
#include "embed/model_folder.h"
#include "embed/model_identity.h"
#include "os/files/host_files.h"
#include "os/threads/parallel.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::make_tiny_model;
using testing::TempDir;
using testing::TinyModel;
using testing::write_model;
using testing::write_text;

const std::string kInstalled = std::string(WARREN_SOURCE_DIR) + "/.deps/models/all-MiniLM-L6-v2";

double dot_of(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0;
  for (std::size_t i = 0; i < a.size(); ++i) dot += static_cast<double>(a[i]) * b[i];
  return dot;
}

// tests/embed/reference.py: the same model by numpy in double precision.
TEST(ForEachParallel, AThreadWithoutMemoryIsAnError) {
  Status done = for_each_parallel(8, [](std::size_t) -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(error_of(done), Code::kTooLarge);
}

TEST(LocalEmbedder, VectorsOfTheInstalledModelAreThoseOfTheReference) {
  auto embedder = LocalEmbedder::open(kInstalled);
  ASSERT_OK(embedder) << "run tools/setup";
  EXPECT_EQ((*embedder)->model(), "all-MiniLM-L6-v2");
  EXPECT_EQ((*embedder)->dimensions(), 384U);
  const std::string file = std::string(WARREN_SOURCE_DIR) + "/tests/embed/vectors.json";
  const Json cases = parse_json(read_host_file(file, std::size_t{1} << 20).value()).value();
  std::vector<std::string> texts;
  for (const Json& one : cases) texts.push_back(one["text"].get<std::string>());
  ASSERT_GE(texts.size(), 10U);
  auto vectors = (*embedder)->embed({texts.begin(), texts.end()}, TextRole::kPassage).value();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto expected = cases[i]["vector"].get<std::vector<float>>();
    ASSERT_EQ(vectors[i].size(), expected.size());
    EXPECT_GT(dot_of(vectors[i], expected), 0.9999) << texts[i];
    EXPECT_NEAR(dot_of(vectors[i], vectors[i]), 1, 1e-5);
  }
  EXPECT_GT(dot_of(vectors[0], vectors[1]), dot_of(vectors[0], vectors[2]) + 0.2)
      << "rabbits are not nearer to rabbits";
}

TEST(LocalEmbedder, AModelIsKnownByItsContentAndNotByItsFolderAlone) {
  TempDir dir;
  auto identity = [&](const std::string& folder) { return identity_of_model(dir.file(folder)).value(); };
  for (const char* above : {"a", "b", "c"}) std::filesystem::create_directory(dir.file(above));
  write_model(dir.file("a/m"), make_tiny_model(24, 2, 40, 1));
  write_model(dir.file("b/m"), make_tiny_model(24, 2, 40, 1));
  EXPECT_EQ(identity("a/m"), identity("b/m"));
  EXPECT_EQ(folder_of_identity(identity("a/m")), "m");
  write_model(dir.file("b/m"), make_tiny_model(24, 2, 40, 2));  // trained further: the same sizes
  EXPECT_NE(identity("a/m"), identity("b/m"));
  write_model(dir.file("b/m"), make_tiny_model(24, 2, 40, 1));
  std::filesystem::create_directories(dir.file("b/m/1_Pooling"));
  write_text(dir.file("b/m/1_Pooling/config.json"), R"({"pooling_mode_cls_token": true})");
  EXPECT_NE(identity("a/m"), identity("b/m"));
  write_model(dir.file("c/all-MiniLM-L6-v2"), make_tiny_model(24, 2, 40, 1));  // calls itself the default model
  EXPECT_NE(identity("c/all-MiniLM-L6-v2"), "all-MiniLM-L6-v2");
}

TEST(LocalEmbedder, AModelThatWasUsedBeforeIsFoundByItsName) {
  TempDir dir;
  write_model(dir.file("old"), make_tiny_model(24, 2, 40, 1));
  write_model(dir.file("new"), make_tiny_model(24, 2, 40, 2));
  std::string old = identity_of_model(dir.file("old")).value();
  EmbedderOptions now{.kind = "local", .folder = dir.file("new")};
  std::unique_ptr<Embedder> found = open_former_embedder(now, old);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->model(), old);
  EXPECT_EQ(open_former_embedder(now, "none-such@000000000000"), nullptr);
  EXPECT_EQ(open_former_embedder(now, "../../etc"), nullptr);
  EXPECT_EQ(open_former_embedder(now, "http:m"), nullptr);  // its address is not known
  write_model(dir.file("old"), make_tiny_model(24, 2, 40, 3));
  EXPECT_EQ(open_former_embedder(now, old), nullptr);  // another model in the same folder
}

TEST(LocalEmbedder, ABatchHasTheVectorsOfItsTextsInOrder) {
  TempDir dir;
  write_model(dir.file("m"), make_tiny_model(24, 2, 40, 1));
  auto embedder = LocalEmbedder::open(dir.file("m")).value();
  EXPECT_EQ(embedder->model().substr(0, 2), "m@");
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i) texts.push_back(std::string(static_cast<std::size_t>(i), 'x') + " rabbits live here");
  texts.emplace_back("");
  texts.emplace_back("\xFF\xFE");
  std::vector<std::vector<std::vector<float>>> runs(4);
  std::vector<std::thread> threads;
  for (auto& run : runs) {
    threads.emplace_back([&] { run = embedder->embed({texts.begin(), texts.end()}, TextRole::kQuery).value(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::vector<float> alone = embedder->embed({texts[i]}, TextRole::kQuery).value()[0];
    for (const auto& run : runs) EXPECT_EQ(run[i], alone);
  }
  EXPECT_TRUE(embedder->embed({}, TextRole::kQuery).value().empty());
}

TEST(LocalEmbedder, SettingsComeFromTheFolder) {
  TempDir dir;
  const std::string folder = dir.file("m");
  write_model(folder, make_tiny_model(24, 2, 40, 1));
  ::mkdir((folder + "/1_Pooling").c_str(), 0700);
  const std::vector<float> mean = LocalEmbedder::open(folder).value()->embed({"rabbit"}, TextRole::kQuery).value()[0];
  write_text(folder + "/1_Pooling/config.json", R"({"pooling_mode_cls_token": true})");
  write_text(folder + "/sentence_bert_config.json", R"({"max_seq_length": 6})");
  write_text(folder + "/config_sentence_transformers.json", R"({"prompts": {"query": "here ", "document": ""}})");
  auto embedder = LocalEmbedder::open(folder).value();
  EXPECT_NE(embedder->embed({"rabbit"}, TextRole::kPassage).value()[0], mean);
  EXPECT_EQ(embedder->tokens_of("rabbit", TextRole::kPassage).size(), 3U);
  EXPECT_EQ(embedder->tokens_of("rabbit", TextRole::kQuery).size(), 4U);
  EXPECT_EQ(embedder->tokens_of("a b c d e f g", TextRole::kQuery).size(), 6U);
}

TEST(LocalEmbedder, PromptsOfWellKnownModelsGoByTheFolder) {
  TempDir dir;
  write_model(dir.file("e5-small-v2"), make_tiny_model(24, 2, 40, 1));
  auto embedder = LocalEmbedder::open(dir.file("e5-small-v2")).value();
  EXPECT_GT(embedder->tokens_of("x", TextRole::kQuery).size(), 3U);
  EXPECT_GT(embedder->tokens_of("x", TextRole::kPassage).size(), 3U);
  EXPECT_EQ(known_prompts("/models/bge-small-en-v1.5").passage, "");
  EXPECT_THAT(known_prompts("BAAI/bge-small-en-v1.5").query, HasSubstr("searching"));
  EXPECT_EQ(known_prompts("all-MiniLM-L6-v2").query, "");
}

struct WrongFile {
  std::string name;
  std::string content;
  Code code;
  std::string message;
};

TEST(LocalEmbedder, AWrongFileInTheFolderIsAnErrorThatNamesIt) {
  const TinyModel model = make_tiny_model(24, 2, 40, 1);
  auto config = [&](const std::string& key, const Json& value) {
    Json changed = model.config_json;
    changed[key] = value;
    return dump_json(changed);
  };
  const std::vector<WrongFile> files{
      {"config.json", "", Code::kCorrupt, "config.json"},
      {"config.json", "[]", Code::kNotFound, "config.json"},
      {"config.json", config("model_type", "roberta"), Code::kUnsupported, "roberta"},
      {"config.json", config("hidden_act", "relu"), Code::kUnsupported, "relu"},
      {"config.json", config("position_embedding_type", "rotary"), Code::kUnsupported, "rotary"},
      {"config.json", config("hidden_size", 23), Code::kCorrupt, "hidden_size"},
      {"config.json", config("hidden_size", 48), Code::kCorrupt, "word_embeddings"},
      {"config.json", config("hidden_size", 0), Code::kCorrupt, "hidden_size"},
      {"config.json", config("hidden_size", -24), Code::kCorrupt, "hidden_size"},
      {"config.json", config("hidden_size", 1e30), Code::kCorrupt, "hidden_size"},
      {"config.json", config("num_attention_heads", "x"), Code::kCorrupt, "num_attention_heads"},
      {"config.json", config("num_hidden_layers", 3), Code::kNotFound, "encoder.layer.2"},
      {"config.json", config("max_position_embeddings", 41), Code::kCorrupt, "position_embeddings"},
      {"config.json", config("vocab_size", 60), Code::kCorrupt, "61"},
      {"config.json", config("layer_norm_eps", "x"), Code::kCorrupt, "layer_norm_eps"},
      {"config.json", config("layer_norm_eps", -1), Code::kCorrupt, "layer_norm_eps"},
      {"vocab.txt", "a\nb\n", Code::kCorrupt, "vocab.txt"},
      {"tokenizer_config.json", R"({"do_lower_case": 5})", Code::kCorrupt, "do_lower_case"},
      {"sentence_bert_config.json", R"({"max_seq_length": "x"})", Code::kCorrupt, "max_seq_length"},
      {"1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})", Code::kUnsupported, "pooling"},
      {"modules.json", R"([{"type": "sentence_transformers.models.Dense"}])", Code::kUnsupported, "Dense"},
      {"modules.json", "[5]", Code::kUnsupported, "modules.json"},
      {"config_sentence_transformers.json", R"({"prompts": {"query": 5}})", Code::kCorrupt, "prompts"},
      {"model.safetensors", "", Code::kCorrupt, "model.safetensors"}};
  for (const WrongFile& file : files) {
    SCOPED_TRACE(file.name + " " + file.content);
    TempDir dir;
    write_model(dir.file("m"), model);
    ::mkdir(dir.file("m/1_Pooling").c_str(), 0700);
    write_text(dir.file("m/" + file.name), file.content);
    auto opened = LocalEmbedder::open(dir.file("m"));
    ASSERT_EQ(error_of(opened), file.code) << (opened.ok() ? "" : opened.error().message());
    EXPECT_THAT(opened.error().message(), HasSubstr(file.message));
  }
}

TEST(LocalEmbedder, AFolderWithoutAModelIsNotFound) {
  TempDir dir;
  EXPECT_EQ(error_of(LocalEmbedder::open(dir.file("none"))), Code::kNotFound);
  EXPECT_EQ(error_of(LocalEmbedder::open(dir.path())), Code::kNotFound);
  write_model(dir.file("m"), make_tiny_model(24, 2, 40, 1));
  ASSERT_EQ(::unlink(dir.file("m/vocab.txt").c_str()), 0);
  EXPECT_EQ(error_of(LocalEmbedder::open(dir.file("m"))), Code::kNotFound);
}

TEST(LocalEmbedder, AModelThatIsCutWhileItIsOpenIsAnError) {
  TempDir dir;
  write_model(dir.file("m"), make_tiny_model(24, 2, 40, 1));
  auto embedder = LocalEmbedder::open(dir.file("m")).value();
  ASSERT_EQ(::truncate(dir.file("m/model.safetensors").c_str(), 100), 0);
  std::vector<std::string_view> texts(20, "rabbit");
  EXPECT_EQ(error_of(embedder->embed(texts, TextRole::kQuery)), Code::kCorrupt);
}

TEST(ModelFolder, ANameIsLookedForInThePlacesInOrder) {
  TempDir dir;
  for (const char* place : {"a", "b"}) ::mkdir(dir.file(place).c_str(), 0700);
  write_model(dir.file("b/all-MiniLM-L6-v2"), make_tiny_model(24, 2, 40, 1));
  const std::vector<std::string> places{dir.file("a"), dir.file("b")};
  EXPECT_EQ(find_model_folder("", places).value(), dir.file("b/all-MiniLM-L6-v2"));
  EXPECT_EQ(find_model_folder("all-MiniLM-L6-v2", places).value(), dir.file("b/all-MiniLM-L6-v2"));
  EXPECT_EQ(find_model_folder("/x/y", places).value(), "/x/y");
  Result<std::string> none = find_model_folder("bge", places);
  ASSERT_EQ(error_of(none), Code::kNotFound);
  EXPECT_THAT(none.error().message(), HasSubstr("bge"));
  EXPECT_THAT(none.error().hint(), HasSubstr("WARREN_MODELS"));
  EXPECT_EQ(error_of(find_model_folder("..", places)), Code::kInvalid);
}

TEST(ModelFolder, AnInstalledProgramLooksBesideItselfOnly) {
  EXPECT_EQ(model_places_of("/opt/warren/bin/warren"), std::vector<std::string>{"/opt/warren/share/warren/models"});
}

}  // namespace
}  // namespace warren
