// Open files, over every filesystem.
#include "fs/file.h"

#include "conformance/file_system_fixture.h"
#include "fs/path_ops.h"

namespace warren::testing {
namespace {

class FileTest : public FileSystemTest {
 protected:
  std::unique_ptr<File> open(std::string_view path, const OpenOptions& options = {}) {
    return must(File::open(fs_, path, options));
  }
  std::optional<Code> open_error(std::string_view path, const OpenOptions& options = {}) {
    return error_of(File::open(fs_, path, options));
  }
  void put(std::string_view path, std::string_view text) { must(warren::write_file(fs_, path, as_bytes(text))); }
  std::string get(std::string_view path) { return must(warren::read_file(fs_, path)); }
  static std::string read_all(File& file) {
    std::string out(100, '?');
    out.resize(must(file.read_at(0, as_mutable_bytes(out))));
    return out;
  }
};

constexpr OpenOptions kCreating{.access = FileAccess::kReadWrite, .create = Create::kIfMissing};

TEST_P(FileTest, AFileIsReadAndWritten) {
  put("/f", "0123");
  auto file = open("/f", {.access = FileAccess::kReadWrite});
  EXPECT_OK(file->write_at(1, as_bytes("ab")));
  EXPECT_EQ(must(file->append(as_bytes("+"))), 4U);
  EXPECT_EQ(read_all(*file), "0ab3+");
  EXPECT_OK(file->truncate(2));
  EXPECT_EQ(must(file->attributes()).size, 2U);
  EXPECT_OK(file->sync());
  EXPECT_OK(file->close());
  EXPECT_EQ(get("/f"), "0a");
}

TEST_P(FileTest, AFileAllowsOnlyTheAccessItWasOpenedWith) {
  put("/f", "text");
  auto reader = open("/f");
  EXPECT_EQ(error_of(reader->write_at(0, as_bytes("x"))), Code::kBadHandle);
  EXPECT_EQ(error_of(reader->append(as_bytes("x"))), Code::kBadHandle);
  EXPECT_EQ(error_of(reader->truncate(0)), Code::kBadHandle);
  EXPECT_EQ(read_all(*reader), "text");
  auto writer = open("/f", {.access = FileAccess::kWrite});
  std::string out(1, '?');
  EXPECT_EQ(error_of(writer->read_at(0, as_mutable_bytes(out))), Code::kBadHandle);
  EXPECT_OK(writer->write_at(0, as_bytes("T")));
  EXPECT_EQ(get("/f"), "Text");
}

TEST_P(FileTest, EveryCallFailsAfterClose) {
  put("/f", "text");
  auto file = open("/f", {.access = FileAccess::kReadWrite});
  EXPECT_OK(file->close());
  EXPECT_OK(file->close());
  std::string out(1, '?');
  EXPECT_EQ(error_of(file->read_at(0, as_mutable_bytes(out))), Code::kBadHandle);
  EXPECT_EQ(error_of(file->write_at(0, as_bytes("x"))), Code::kBadHandle);
  EXPECT_EQ(error_of(file->sync()), Code::kBadHandle);
  EXPECT_EQ(error_of(file->attributes()), Code::kBadHandle);
}

TEST_P(FileTest, AnOpenFileOutlivesItsName) {
  put("/f", "text");
  auto file = open("/f");
  Inode inode = file->inode();
  must(warren::unlink(fs_, "/f"));
  EXPECT_EQ(read_all(*file), "text");
  file.reset();
  EXPECT_EQ(error_of(fs_.get_attributes(inode)), Code::kStale);
}

TEST_P(FileTest, AMissingFileIsCreatedOnlyOnRequest) {
  EXPECT_EQ(open_error("/f"), Code::kNotFound);
  OpenOptions options = kCreating;
  options.mode = 0600;
  options.owner = {.uid = 5, .gid = 6};
  auto file = open("/f", options);
  EXPECT_EQ(must(file->attributes()).mode, S_IFREG | 0600U);
  EXPECT_EQ(must(file->attributes()).owner.uid, 5U);
  EXPECT_OK(file->write_at(0, as_bytes("x")));
  EXPECT_EQ(read_all(*open("/f", options)), "x");
  EXPECT_EQ(open_error("/none/f", options), Code::kNotFound);
  EXPECT_EQ(open_error("/new/", options), Code::kIsDirectory);
}

TEST_P(FileTest, MustCreateFailsIfTheFileExists) {
  put("/f", "x");
  must(warren::make_symlink(fs_, "nowhere", "/link"));
  OpenOptions options{.access = FileAccess::kWrite, .create = Create::kMustCreate};
  EXPECT_EQ(open_error("/f", options), Code::kExists);
  EXPECT_EQ(open_error("/link", options), Code::kExists);
  EXPECT_EQ(open_error("/", options), Code::kExists);
  EXPECT_OK(File::open(fs_, "/new", options));
}

TEST_P(FileTest, TruncateEmptiesTheFile) {
  put("/f", "text");
  EXPECT_EQ(open_error("/f", {.truncate = Truncate::kYes}), Code::kInvalid);
  auto file = open("/f", {.access = FileAccess::kWrite, .truncate = Truncate::kYes});
  EXPECT_EQ(get("/f"), "");
}

TEST_P(FileTest, AppendWritesAtTheEndWhateverTheOffset) {
  put("/f", "text");
  auto file = open("/f", {.access = FileAccess::kWrite, .append = Append::kYes});
  EXPECT_OK(file->write_at(0, as_bytes("+")));
  must(warren::append_file(fs_, "/f", as_bytes("other")));
  EXPECT_OK(file->write_at(0, as_bytes("+")));
  EXPECT_EQ(get("/f"), "text+other+");
}

TEST_P(FileTest, SymlinksAreFollowedUnlessForbidden) {
  put("/f", "text");
  must(warren::make_symlink(fs_, "f", "/link"));
  must(warren::make_symlink(fs_, "new", "/dangling"));
  EXPECT_EQ(read_all(*open("/link")), "text");
  EXPECT_EQ(open_error("/link", {.follow = Follow::kNo}), Code::kLoop);
  EXPECT_OK(open("/dangling", kCreating)->write_at(0, as_bytes("x")));
  EXPECT_EQ(get("/new"), "x");
}

TEST_P(FileTest, OnlyRegularFilesAreOpened) {
  make_dir("d");
  make_fifo("p");
  EXPECT_EQ(open_error("/d"), Code::kIsDirectory);
  EXPECT_EQ(open_error("/", kCreating), Code::kIsDirectory);
  EXPECT_EQ(open_error("/p"), Code::kInvalid);
}

TEST_P(FileTest, ErrorsNameThePath) {
  put("/f", "x");
  auto file = open("/f");
  EXPECT_EQ(file->truncate(0).error().message(), "truncate '/f': it is open for reading only");
  EXPECT_EQ(File::open(fs_, "/none").error().message(), "no '/none'");
}

WARREN_EACH_FILE_SYSTEM(FileTest);

}  // namespace
}  // namespace warren::testing
