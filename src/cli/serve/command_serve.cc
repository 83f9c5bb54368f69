// serve: doors that programs use. `serve mcp` is the one for models.
#include <cerrno>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/checkpoints/signal_checkpoint.h"
#include "base/ascii.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/context/open_index.h"
#include "cli/serve/served_view.h"
#include "cli/serve/server_signals.h"
#include "cli/version.h"
#include "cli/vfs/embedding.h"
#include "mcp/http.h"
#include "mcp/service.h"
#include "mcp/stdio.h"
#include "net/http_server.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

constexpr std::size_t kTokenBytesMin = 16;
constexpr std::size_t kTokenBytesMax = 4096;

Result<mcp::ServiceOptions> mcp_options(Context& context, const Arguments& args, const ServedView& view) {
  mcp::ServiceOptions options;
  options.is_read_only = args.has("read-only") || view.open.agent->is_read_only();
  options.reach = view.reach;
  options.renew_view = view.renew_view;
  mcp::ToolChoice choice{.is_read_only = options.is_read_only,
                         .is_for_peer = view.open.fs->caller().grants != nullptr,
                         .reach = &options.reach};
  options.tools = WARREN_TRY(mcp::select_tools(args.find("tools"), choice).within("--tools"));
  options.is_conformance = args.has("conformance");
  options.version = kVersion;
  options.session = fmt::format("mcp-{}-{}", context.clock.now().seconds, ::getpid());
  if (choice.is_for_peer) options.session += "-as-" + view.open.fs->caller().agent;
  return options;
}

Result<std::string> read_token(const Arguments& args) {
  std::optional<std::string> file = args.find("token-file");
  if (!file) return std::string();
  std::optional<struct stat> node = WARREN_TRY(find_host_file(*file).within("--token-file"));
  if (node && (node->st_mode & 0077U) != 0) {
    return Error(Code::kDenied, fmt::format("other users can use {}, which holds the token", quote(*file)),
                 fmt::format("chmod 600 {}", quote(*file)));
  }
  std::string text = WARREN_TRY(read_host_file(*file, kTokenBytesMax).within("--token-file"));
  std::string token(trimmed(text, kWhitespace));
  bool is_plain = token.find_first_of(kWhitespace) == token.npos;
  if (token.size() >= kTokenBytesMin && is_plain) return token;
  return Error(Code::kInvalid,
               fmt::format("{} must hold one word of at least {} characters", quote(*file), kTokenBytesMin),
               "`(umask 077; head -c 24 /dev/urandom | base64 > FILE)` makes one");
}

Status serve_over_http(Context& context, const Arguments& args, mcp::Service& service, int stop_fd) {
  mcp::HttpDoorOptions options;
  options.address = WARREN_TRY(net::parse_http_address(args.get("http")).within("--http"));
  options.token = WARREN_TRY(read_token(args));
  Result<std::unique_ptr<mcp::HttpDoor>> started = mcp::HttpDoor::start(service, std::move(options));
  if (!started.ok() && started.error().code() == Code::kDenied) {
    return std::move(started).take_error().with_hint(
        "give --token-file FILE, with a secret that clients send as a bearer token");
  }
  std::unique_ptr<mcp::HttpDoor> door = WARREN_TRY(std::move(started));
  context.err.print("warren: serving at http://{}/mcp\n", door->address().text());
  pollfd stop{stop_fd, POLLIN, 0};
  while (::poll(&stop, 1, -1) < 0 && errno == EINTR) {
  }
  door->stop();
  return Ok{};
}

Result<Exit> run_serve_mcp(Context& context, const Arguments& args) {
  if (args.has("token-file") && !args.has("http")) return refuse(context, "'--token-file' is for '--http'");
  // Before any thread is started, so that all of them leave the signals to us.
  std::unique_ptr<ServerSignals> signals = WARREN_TRY(ServerSignals::take());
  ServedView served = WARREN_TRY(open_served_view(context, args));
  OpenView& view = served.open;
  mcp::ServiceOptions options = WARREN_TRY(mcp_options(context, args, served));
  ToolIndex index(context, *view.agent, ToolIndex::Embedding::kInBackground);
  options.open_index = [&index] { return index.open(); };
  ToolEmbedder embedder(context);
  options.open_embedder = [&embedder] { return embedder.open(); };
  mcp::Service service(*view.agent, *view.names, *view.fs, context.clock, std::move(options));
  auto take_checkpoints = [&] {
    for (const std::string& problem : take_signal_checkpoint(*view.agent, &view.names->mounted())) {
      context.err.print("warren: {}\n", problem);
    }
  };
  // Serving ends when its calls have ended, and they may wait for the embedding service.
  auto stop_waiting = [&] {
    embedder.cancel();
    index.cancel_embedding();
  };
  signals->listen(take_checkpoints, stop_waiting);
  int stop_fd = signals->stop_fd();
  mcp::StdioOptions over_stdio{.input = context.input, .output = STDOUT_FILENO, .stop_fd = stop_fd};
  Status served_all =
      args.has("http") ? serve_over_http(context, args, service, stop_fd) : mcp::serve_stdio(service, over_stdio);
  signals.reset();  // also after an error: it uses the agent
  WARREN_TRY(std::move(served_all));
  WARREN_TRY(view.fs->check_recorded());
  return Exit::kOk;
}

Command make_serve_mcp() {
  std::vector<Option> options{
      {.name = "tools",
       .value = "LIST",
       .help = "offer only these tools or groups, with commas: files, keys, vfs, memory, context, checkpoints, relay, "
               "session, read_file, …"},
      {.name = "http",
       .value = "[ADDRESS:]PORT",
       .help = "serve over HTTP there, at /mcp, until it is ended; port 0: any free one"},
      {.name = "token-file",
       .value = "FILE",
       .help = "a file with the bearer token that clients must send; required unless the address is this machine's own",
       .suggest = Suggest::kHostFiles},
      {.name = "conformance", .help = "also offer the tools, prompts and resources that conformance suites call for"}};
  for (Option& one : served_view_options()) options.push_back(std::move(one));
  return {
      .name = "mcp",
      .summary = "Serve an agent to clients of the Model Context Protocol",
      .details =
          "The client gets the agent's files, keys, memory and checkpoints as tools and resources, with the agent's "
          "own rights, under the rules of its policy. For a session of `warren run`, /project has the files of the "
          "project, with the session's changes. Every call is in the agent's trail (`warren timeline`). It "
          "speaks the revisions 2024-11-05 to 2026-07-28. Without --http it serves one client over standard input and "
          "output, and ends with its input. SIGUSR1 takes a checkpoint.",
      .positionals = {id_argument()},
      .options = std::move(options),
      .subcommands = {},
      .handler = run_serve_mcp};
}

}  // namespace

Command make_serve() {
  return {.name = "serve",
          .summary = "Serve an agent to programs that speak a protocol",
          .details = "",
          .positionals = {},
          .options = {},
          .subcommands = {make_serve_mcp()},
          .handler = nullptr};
}

}  // namespace warren::cli
