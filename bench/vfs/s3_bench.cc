// Objects of 64 KiB on S3: through our store, and by a bare loop of libcurl beside it, whose requests are signed before
// the clock starts. Starts its own server. Rounds take turns; the median counts.
//
//   s3_bench [OPERATIONS]
#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/blob/s3_blobs.h"
#include "backends/s3_server.h"
#include "crypto/digest.h"

namespace {

using namespace warren;

constexpr int kRounds = 9;
constexpr int kKeys = 50;
constexpr std::size_t kSize = std::size_t{64} << 10;

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "s3_bench: {}\n", why);
  std::exit(1);
}

// Microseconds for each call of `work`.
double time_of(int count, const std::function<void(int)>& work) {
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) work(i);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / count;
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

void compare(const char* name, int count, const std::function<void(int)>& ours, const std::function<void(int)>& bare) {
  std::vector<double> our_times;
  std::vector<double> bare_times;
  for (int round = 0; round < kRounds; ++round) {
    bare_times.push_back(time_of(count, bare));
    our_times.push_back(time_of(count, ours));
  }
  fmt::print("{:<24} {:>8.1f} us {:>8.1f} us {:>6.2f}\n", name, median(our_times), median(bare_times),
             median(our_times) / median(bare_times));
}

std::size_t take(char* data, std::size_t, std::size_t size, void* out) {
  static_cast<std::string*>(out)->append(data, size);
  return size;
}

struct Prepared {
  std::string url;
  curl_slist* headers = nullptr;
};

Prepared prepare(const S3Settings& settings, const std::string& method, const std::string& key,
                 const std::string& body) {
  SystemClock clock;
  std::string date = amz_date(clock.now());
  std::string hash = sha256_hex(as_bytes(body));
  SignedRequest request{.method = method,
                        .path = settings.path_of(key),
                        .headers = {{"host", settings.host()}, {"x-amz-content-sha256", hash}, {"x-amz-date", date}},
                        .payload_hash = hash};
  Prepared made{.url = settings.endpoint + request.path};
  for (const std::string& line :
       {"x-amz-content-sha256: " + hash, "x-amz-date: " + date, std::string("Expect:"), std::string("Content-Type:"),
        "Authorization: " + authorization(request, date, settings.scope, settings.credentials)}) {
    made.headers = curl_slist_append(made.headers, line.c_str());
  }
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 300;
  testing::S3Server server;
  SystemClock clock;
  auto settings = read_s3_settings({.address = server.address(server.new_bucket())}, process_environment());
  if (!settings.ok()) fail(settings.error().message());
  auto store = S3Blobs::open(*settings, clock);
  if (!store.ok()) fail(store.error().message());

  std::string value(kSize, 'v');
  auto key = [](int i) { return fmt::format("folder/key{}", i % kKeys); };
  std::vector<Prepared> puts;
  std::vector<Prepared> gets;
  for (int i = 0; i < kKeys; ++i) {
    puts.push_back(prepare(*settings, "PUT", "bare/" + key(i), value));
    gets.push_back(prepare(*settings, "GET", "bare/" + key(i), ""));
  }
  CURL* curl = curl_easy_init();
  std::string answer;
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  auto perform = [&](const Prepared& request) {
    answer.clear();
    curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, request.headers);
    long status = 0;
    if (curl_easy_perform(curl) != CURLE_OK) fail("curl failed");
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) fail(fmt::format("HTTP status {}: {}", status, answer));
  };
  auto bare_put = [&](int i) {
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PUT");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(value.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, value.data());
    perform(puts[static_cast<std::size_t>(i % kKeys)]);
  };
  auto bare_get = [&](int i) {
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "GET");
    perform(gets[static_cast<std::size_t>(i % kKeys)]);
    if (answer.size() != kSize) fail("half an answer");
  };
  auto our_put = [&](int i) {
    auto put = (*store)->put(key(i), as_bytes(value));
    if (!put.ok()) fail(put.error().message());
  };
  auto our_get = [&](int i) {
    auto got = (*store)->get(key(i));
    if (!got.ok() || !*got || (*got)->content.size() != kSize) fail("get failed");
  };
  fmt::print("{:<24} {:>11} {:>11} {:>6}\n", "s3, 64 KiB", "warren", "libcurl", "ratio");
  for (int i = 0; i < kKeys; ++i) {
    bare_put(i);
    our_put(i);
  }
  compare("put", count, our_put, bare_put);
  compare("get", count, our_get, bare_get);
  return 0;
}
