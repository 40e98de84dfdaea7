// --report and --gantt on the command line; what their pages show is tested in a browser.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

const std::string step = "simulate --model gpt2 --cluster dgx-h100 --strategy ddp --seq-len 1024 ";

bool html_is_off() {
  return run(step + "--report /dev/null").err.find("HTML is off") != std::string::npos;
}

void refused(const std::string& arguments, const std::string& words) {
  const Output o = run(arguments);
  CAPTURE(arguments);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(count_lines(o.err) == 1);
  CHECK(o.err.find(words) != std::string::npos);
  CHECK(o.out.empty());
}

}  // namespace

TEST_CASE("the streams are drawn below the forecast, plain where no terminal reads") {
  const Output plain = run(step);
  const Output drawn = run(step + "--gantt");
  CHECK(drawn.code == 0);
  REQUIRE(drawn.out.size() > plain.out.size());
  CHECK(drawn.out.substr(0, plain.out.size()) == plain.out);
  const std::string lines = drawn.out.substr(plain.out.size());
  CHECK(lines.find("\x1b") == std::string::npos);
  CHECK(lines.find("\ncompute ") != std::string::npos);
  CHECK(lines.find("F forward  B backward") != std::string::npos);
  std::istringstream each(lines);
  for (std::string line; std::getline(each, line);) CHECK(line.size() <= 80);
}

TEST_CASE("--gantt and --report are refused where there is nothing for them to show") {
  refused(step + "--gantt --json", "--gantt: is text");
  refused(step + "--gantt --schedule", "--schedule prints a schedule");
  refused(step + "--gantt --perturb rank=1:missing", "--gantt: a step that never ends");
  refused("simulate --params 7e9 --gpus 8 --gpu h100-sxm --report x.html",
          "--report: needs a model");
  refused("simulate --params 7e9 --gpus 8 --gpu h100-sxm --gantt", "--gantt: needs a model");
}

TEST_CASE("a report that could not be written is refused before any work") {
  if (html_is_off()) {
    refused(step + "--report /tmp/x.html", "--report: HTML is off");
    refused("serve", "HTML is off");
    return;
  }
  refused(step + "--report /", "is a directory");
  refused(step + "--report /no/such/folder/x.html", "lies in a folder that is not there");
  refused(step + "--report ''", "--report");
  refused(step + "--trace /tmp/stepcast-same --report /tmp/stepcast-same",
          "is where to write, too, by --report");
  refused("validate --published --report /", "is a directory");
  CHECK(run(step + "--report /dev/full").code == 2);
  CHECK(run(step + "--report /dev/null").code == 0);
}

TEST_CASE("serve refuses what it cannot listen on") {
  if (html_is_off()) return;
  refused("serve --port 99999", "--port: 99999 is not accepted");
  refused("serve --port -1", "--port");
  refused("serve --host nonsense/", "--host: 'nonsense/'");
  refused("serve --host 203.0.113.7 --port 0", "cannot be listened on");
  refused("serve --workers 1000", "--workers: 1000");
  refused("serve --time-limit 0", "--time-limit: 0");
  refused("serve --allow-host http://x", "--allow-host");
}
