// stepcast serve: the report page, alive, on this machine.
//
// The page asks /api/... for what it draws; every question is answered by a process of its own
// (serve_workers.hpp). The server listens on the loopback unless told otherwise, answers GET only,
// knows no path but its own, and refuses requests that were meant for another host: a page of the
// web may have its name point here (DNS rebinding), and then says that name in Host.
//
// Tested by tests/page/serve_test.cpp and, in a browser, tests/page.

#include <fmt/format.h>
#include <httplib.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/letters.hpp"
#include "cli/command.hpp"
#include "cli/serve_answers.hpp"
#include "cli/serve_workers.hpp"
#include "sim/report/html_page.hpp"

namespace stepcast::cli {

namespace {

struct Options {
  std::string host = "127.0.0.1";
  int port = 7077;
  int workers = 0;
  int time_limit = 10;
  std::vector<std::string> allowed;
};

Where flag(const char* name) { return {.file = name, .line = 0, .key = ""}; }

void check(const char* name, int value, int low, int high, const char* unit) {
  if (value >= low && value <= high) return;
  throw InputError(flag(name),
                   fmt::format("{} is not accepted; accepted: {} to {}{}", value, low, high, unit));
}

// A name or a number of a host, an IPv6 one without brackets.
bool host_like(const std::string& text) {
  return !text.empty() && text.size() <= 253 &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:") ==
             std::string::npos;
}

bool is_address(const std::string& host) {  // no name: digits and points, or IPv6
  return host.find(':') != std::string::npos ||
         host.find_first_not_of("0123456789.") == std::string::npos;
}

// Whether a request's Host is this server: its address (any number where it listens on all), the
// names of the loopback where it listens there, or what --allow-host says, with its port.
class HostCheck {
 public:
  HostCheck(const Options& options, int port) : port_(port) {
    for (const std::string& name : options.allowed) names_.push_back(lower(name));
    const std::string host = lower(options.host);
    all_ = host == "0.0.0.0" || host == "::";
    names_.push_back(host);
    if (all_ || host == "localhost" || host == "::1" || host.starts_with("127.")) {
      names_.insert(names_.end(), {"localhost", "127.0.0.1", "::1"});
    }
  }

  bool knows(const std::string& header) const {
    std::string host = lower(header);
    std::string port = "80";
    const std::size_t bracket = host.find(']');
    const std::size_t colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
    if (colon != std::string::npos) {
      port = host.substr(colon + 1);
      host.resize(colon);
    }
    if (port != std::to_string(port_)) return false;
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (all_ && !host.empty() && is_address(host)) return true;
    return std::find(names_.begin(), names_.end(), host) != names_.end();
  }

 private:
  int port_;
  bool all_ = false;
  std::vector<std::string> names_;
};

void send(const Answer& made, httplib::Response& response) {
  response.status = made.status;
  if (made.status == 503) response.set_header("Retry-After", "2");
  response.set_content(made.body, made.type);
}

// Control characters end a worker's lines (serve_workers.cpp), and no value has any.
bool has_control(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

void answer_api(const httplib::Request& request, httplib::Response& response, Workers& workers) {
  const std::string what = request.path.substr(std::string_view("/api/").size());
  const auto& known = questions();
  if (std::find(known.begin(), known.end(), what) == known.end()) {
    send(refusal(404, fmt::format("/api/ has no such thing; accepted: {}", fmt::join(known, ", "))),
         response);
    return;
  }
  Question question{what, {}};
  std::string page;
  for (const auto& [key, value] : request.params) {
    if (has_control(key) || has_control(value)) {
      send(refusal(400, "a control character is not accepted; accepted: words and numbers"),
           response);
      return;
    }
    if (key == "page") {
      page = value.substr(0, 64);
    } else {
      question.keys.emplace_back(key, value);
    }
  }
  const Answer made = workers.ask(question, page, what == "simulate");
  spdlog::info("{} {}: {}, {} bytes", request.path, request.params.size(), made.status,
               made.body.size());
  if (made.status == 200 && what.find('.') != std::string::npos) {
    response.set_header("Content-Disposition", "attachment; filename=\"" + what + "\"");
  }
  send(made, response);
}

void route(httplib::Server& server, const HostCheck& host, const std::string& page,
           Workers& workers) {
  using httplib::Request;
  using httplib::Response;
  using Handled = httplib::Server::HandlerResponse;
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Content-Security-Policy", "frame-ancestors 'none'"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cache-Control", "no-store"}});
  server.set_pre_routing_handler([&host](const Request& request, Response& response) {
    Answer made;
    const std::string site = request.get_header_value("Sec-Fetch-Site");
    if (request.get_header_value_count("Host") != 1 ||
        !host.knows(request.get_header_value("Host"))) {
      made = refusal(403,
                     "this Host is not served here; accepted: the address that `stepcast serve` "
                     "printed, or a name given by --allow-host");
    } else if (request.method != "GET" && request.method != "HEAD") {
      made = refusal(405, "only GET is accepted");
      response.set_header("Allow", "GET, HEAD");
    } else if (site == "cross-site" && request.path.starts_with("/api/")) {
      made = refusal(403, "a page of another site asked; accepted: this server's own page");
    } else {
      return Handled::Unhandled;
    }
    send(made, response);
    return Handled::Handled;
  });
  server.Get("/", [&page](const Request&, Response& response) {
    response.set_content(page, "text/html; charset=utf-8");
  });
  server.Get("/api/.*", [&workers](const Request& request, Response& response) {
    answer_api(request, response, workers);
  });
  server.set_error_handler([](const Request&, Response& response) {
    if (!response.body.empty()) return;
    const int status = response.status > 0 ? response.status : 404;
    send(status == 404 ? refusal(404, "there is no such page; accepted: /")
         : status == 414
             ? refusal(414, "the address is too long; accepted: at most 8,192 characters")
         : status == 413
             ? refusal(413, "a request with a body is not accepted; accepted: GET")
             : refusal(status, "the request could not be read; accepted: GET of HTTP/1.1"),
         response);
  });
  server.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    send(refusal(500, "a fault of stepcast's own"), response);
  });
}

int serve(const Options& options) {
  if (!html_page_available()) check_report("serve", "-");
  check("--port", options.port, 0, 65535, " (0: any that is free)");
  check("--workers", options.workers, 0, 256, " (0: as many as cores)");
  check("--time-limit", options.time_limit, 1, 3600, " s");
  if (!host_like(options.host)) {
    throw InputError(flag("--host"), fmt::format("'{}' is not accepted; accepted: an address of "
                                                 "this machine, as 127.0.0.1 or 0.0.0.0",
                                                 options.host.substr(0, 80)));
  }
  for (const std::string& name : options.allowed) {
    if (!host_like(name)) {
      throw InputError(flag("--allow-host"), fmt::format("'{}' is not accepted; accepted: a host's "
                                                         "name, without a port",
                                                         name.substr(0, 80)));
    }
  }

  // Blocked before there are threads, so that all have them blocked; sigwait() takes them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);

  const std::string page = html_page("serve", serve_options());
  warm_up();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int most = options.workers > 0 ? options.workers : cores;
  Workers workers(most, options.time_limit);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a browser that went away is no reason to end

  httplib::Server server;
  server.set_payload_max_length(1024);
  server.set_read_timeout(5);
  server.set_write_timeout(10);
  server.set_keep_alive_timeout(2);
  server.set_tcp_nodelay(true);
  // A client that sends its request byte by byte holds a thread; they wait and cost nothing.
  server.new_task_queue = [most] {
    return new httplib::ThreadPool(static_cast<std::size_t>(most) + 120);
  };
  const int port = options.port == 0 ? server.bind_to_any_port(options.host)
                   : server.bind_to_port(options.host, options.port) ? options.port
                                                                     : -1;
  if (port < 0) {
    throw InputError(flag("--port"),
                     fmt::format("{} on {} cannot be listened on; accepted: a port "
                                 "that is free, or 0 for any, on an address of this "
                                 "machine",
                                 options.port, options.host));
  }
  const HostCheck host(options, port);
  route(server, host, page, workers);
  const bool v6 = options.host.find(':') != std::string::npos;
  print(fmt::format("http://{}:{}/ (Ctrl-C ends it)\n",
                    v6 ? "[" + options.host + "]" : options.host, port));
  std::thread listener([&server] { server.listen_after_bind(); });
  int signal = 0;
  sigwait(&ends, &signal);
  server.stop();
  listener.join();
  return 0;
}

Run add(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("--host", options->host, "address to listen on: 127.0.0.1")
      ->option_text("ADDRESS");
  command.add_option("--port", options->port, "port, 0 for any that is free: 7077")
      ->option_text("N");
  command
      .add_option("--allow-host", options->allowed,
                  "a name under which browsers may ask for this server; repeatable")
      ->option_text("NAME");
  command.add_option("--workers", options->workers, "forecasts at one time: as many as cores")
      ->option_text("N");
  command.add_option("--time-limit", options->time_limit, "seconds that a forecast may take: 10")
      ->option_text("S");
  return [options] { return serve(*options); };
}

}  // namespace

const Command serve_command{"serve", "forecast in the browser: change a knob, see the step",
                            "  stepcast serve\n"
                            "  stepcast serve --port 0 --workers 2\n"
                            "  stepcast serve --host 0.0.0.0 --allow-host login1.example.org",
                            add};

}  // namespace stepcast::cli
