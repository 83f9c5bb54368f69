#include "os/files/dir_reader.h"

#include <fstream>
#include <map>
#include <set>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

class DirReaderTest : public ::testing::Test {
 protected:
  DirReaderTest() {
    std::ofstream(dir_.file("file")) << "x";
    EXPECT_EQ(::mkdir(dir_.file("dir").c_str(), 0700), 0);
    EXPECT_EQ(::symlink("nowhere", dir_.file("link").c_str()), 0);
  }

  static std::set<std::string> names(DirReader reader) {
    std::set<std::string> all;
    while (const DirReader::Entry* entry = reader.next().value()) all.emplace(entry->name);
    return all;
  }

  const std::set<std::string> all_{"file", "dir", "link"};
  testing::TempDir dir_;
};

TEST_F(DirReaderTest, EachEntryHasNameInodeAndTypeAndDotsAreLeftOut) {
  Fd dir = open_host_dir(dir_.path()).value();
  DirReader reader = DirReader::open(dir.get()).value();
  std::map<std::string, std::uint32_t> types;
  while (const DirReader::Entry* entry = reader.next().value()) {
    struct stat info {};
    ASSERT_EQ(::fstatat(dir.get(), entry->name.data(), &info, AT_SYMLINK_NOFOLLOW), 0);
    EXPECT_EQ(entry->inode, info.st_ino);
    types.emplace(entry->name, entry->type == 0 ? info.st_mode & S_IFMT : entry->type);
  }
  std::map<std::string, std::uint32_t> expected{{"file", S_IFREG}, {"dir", S_IFDIR}, {"link", S_IFLNK}};
  EXPECT_EQ(types, expected);
}

TEST_F(DirReaderTest, OpenStartsAtTheBeginningEachTimeAlsoByAPathDescriptor) {
  Fd path(::open(dir_.path().c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(names(DirReader::open(path.get()).value()), all_);
  EXPECT_EQ(names(DirReader::open(path.get()).value()), all_);
}

TEST_F(DirReaderTest, AnAdoptedDescriptorIsReadAndClosed) {
  Fd dir = open_host_dir(dir_.path()).value();
  int number = dir.get();
  EXPECT_EQ(names(DirReader::adopt(std::move(dir)).value()), all_);
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST_F(DirReaderTest, AFileAndAClosedDescriptorAreErrors) {
  Fd file(::open(dir_.file("file").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(error_of(DirReader::open(file.get())), Code::kNotDirectory);
  EXPECT_EQ(error_of(DirReader::adopt(std::move(file))), Code::kNotDirectory);
  EXPECT_EQ(error_of(DirReader::open(-1)), Code::kBadHandle);
}

}  // namespace
}  // namespace warren
