// stepcast sweep, results and tune from outside: tables, what is known again, processes that are
// killed, ranks, bad input.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

using Json = nlohmann::json;

// A folder that is gone when the test ends.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/stepcast-sweep-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

const std::string base = "sweep --model gpt2 --cluster dgx-h100 --seq-len 512 ";
// 100 points: of DDP 5 x 2 x 7, of the others 5 x 2 each.
const std::string grid = base +
                         "--vary strategy=ddp,zero3,fsdp2,hsdp --vary nodes=1,2,4,...,16 --vary "
                         "bucket_cap_mb=1:64:log7 --vary micro_batch=1,4 ";

std::string csv(const std::string& database) {
  const Output o = run("results " + database + " --export csv");
  CAPTURE(o.err);
  CHECK(o.code == 0);
  return o.out;
}

// A process of its own, not waited for.
pid_t start(const std::string& arguments, const std::vector<std::string>& environment,
            const std::string& log) {
  const pid_t child = fork();
  if (child != 0) return child;
  std::string command = std::string("cd '") + STEPCAST_SOURCE_DIR + "' && exec env";
  for (const std::string& entry : environment) command += " '" + entry + "'";
  command +=
      " '" + std::string(STEPCAST_PROGRAM) + "' " + arguments + " >" + log + " 2>&1 </dev/null";
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

int code_of(pid_t process) {
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// As mpirun would start rank `rank` of `size` on this host.
std::vector<std::string> as_rank(int rank, int size) {
  return {"OMPI_COMM_WORLD_RANK=" + std::to_string(rank),
          "OMPI_COMM_WORLD_SIZE=" + std::to_string(size),
          "OMPI_COMM_WORLD_LOCAL_SIZE=" + std::to_string(size),
          "PMIX_NAMESPACE=test-" + std::to_string(getpid())};
}

// Until so many points are in the database.
void wait_for_points(const std::string& database, int points) {
  for (int i = 0; i < 600; ++i) {
    if (std::filesystem::exists(database)) {
      const Output o = run("results " + database + " --export csv");
      if (o.code == 0 && count_lines(o.out) > points) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  FAIL("no points after a while");
}

}  // namespace

TEST_CASE("a sweep prints its best points, keeps all, and works none out twice") {
  const Folder folder;
  const std::string command = grid + "--screen --out " + (folder / "s.db");
  const Output first = run(command);
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  // DDP has 5 x 2 x 7 points, the others 5 x 2 each.
  CHECK(first.out.find("100 points: 100 fit\n") == 0);
  CHECK(first.out.find("\nbest by tokens/s\n") != std::string::npos);
  CHECK(first.out.find("\nbest by tokens/s at each number of GPUs\n") != std::string::npos);
  CHECK(first.err.find("100 points worked out, 0 known before") != std::string::npos);
  const Output again = run(command);
  CHECK(again.out == first.out);
  CHECK(again.err.find("0 points worked out, 100 known before") != std::string::npos);
  const Output more = run(grid + "--vary accumulation=1 --screen --out " + (folder / "s.db"));
  CHECK(more.err.find("0 points worked out, 100 known before") !=
        std::string::npos);  // its default
  const Output other = run(grid + "--vary accumulation=1,2 --screen --out " + (folder / "s.db"));
  CHECK(other.err.find("100 points worked out, 100 known before") != std::string::npos);
  CHECK(run("results " + (folder / "s.db") + " --where 'accumulation == 1' --export csv").out !=
        run("results " + (folder / "s.db") + " --export csv").out);
}

TEST_CASE("points equal what simulate says, by either engine") {
  const Folder folder;
  for (const char* engine : {"formula", "fluid"}) {
    const std::string step =
        " --model gpt2 --cluster dgx-h100 --nodes 2 --engine " + std::string(engine);
    const Output o =
        run("sweep" + step + " --vary strategy=ddp,fsdp2 --json --out " + (folder / engine));
    CAPTURE(o.err);
    REQUIRE(o.code == 0);
    const Json sweep = Json::parse(o.out);
    REQUIRE(sweep.at("points").size() == 2);
    for (const Json& point : sweep.at("points")) {
      const std::string strategy = point.at("inputs").at("strategy");
      const Json alone = Json::parse(run("simulate --json" + step + " --strategy " + strategy).out);
      CHECK(point.at("step_time_s") == alone.at("step_time_s"));
      CHECK(point.at("mfu") == alone.at("mfu"));
      CHECK(point.at("memory_peak_bytes") == alone.at("memory_bytes").begin().value().at("peak"));
      CHECK(point.at("engine") == engine);
    }
  }
}

TEST_CASE("a sweep that is killed goes on where it was, to the same table") {
  const Folder folder;
  const std::string points =
      base +
      "--accumulation 8 --vary strategy=zero3,fsdp2 --vary nodes=1:32 --vary "
      "micro_batch=1,2 ";
  REQUIRE(run(points + "--out " + (folder / "whole.db")).code == 0);
  const pid_t process = start(points + "-j 2 --out " + (folder / "killed.db"), {}, folder / "log");
  wait_for_points(folder / "killed.db", 10);
  kill(process, SIGKILL);
  CHECK(code_of(process) == -SIGKILL);
  const int there = count_lines(csv(folder / "killed.db")) - 1;
  CHECK(there >= 10);
  CHECK(there < 128);
  const Output rest = run(points + "--out " + (folder / "killed.db"));
  CHECK(rest.code == 0);
  CHECK(rest.err.find(std::to_string(there) + " known before") != std::string::npos);
  CHECK(csv(folder / "killed.db") == csv(folder / "whole.db"));
}

TEST_CASE("two sweeps at once on one database leave the points of both") {
  const std::string few = base + "-j 1 --screen --vary nodes=1:20 --vary strategy=";
  for (int time = 0; time < 5; ++time) {  // both make the file, the table and its columns
    const Folder folder;
    const pid_t one = start(few + "ddp,zero2 --out " + (folder / "s.db"), {}, folder / "log1");
    const pid_t two = start(few + "zero2,fsdp2 --out " + (folder / "s.db"), {}, folder / "log2");
    CHECK(code_of(one) == 0);
    CHECK(code_of(two) == 0);
    INFO(read(folder / "log1"), read(folder / "log2"));
    CHECK(count_lines(csv(folder / "s.db")) == 61);  // a head, and 20 of each of three strategies
  }
}

TEST_CASE("Ctrl-C keeps what is done and says how to go on") {
  const Folder folder;
  const std::string points = base + "--accumulation 8 --vary strategy=zero3 --vary nodes=1:256 ";
  const pid_t process = start(points + "--out " + (folder / "s.db"), {}, folder / "log");
  wait_for_points(folder / "s.db", 5);
  kill(process, SIGINT);
  CHECK(code_of(process) == 130);
  CHECK(read(folder / "log").find("the same command goes on") != std::string::npos);
  CHECK(count_lines(csv(folder / "s.db")) > 5);
}

TEST_CASE("four ranks make the table of one process, and leave nothing but the database") {
  const Folder folder;
  REQUIRE(run(grid + "--out " + (folder / "one.db")).code == 0);
  std::vector<pid_t> ranks;
  for (const int rank : {3, 1, 0, 2}) {  // in whatever order they come
    ranks.push_back(start(grid + "--out " + (folder / "four.db"), as_rank(rank, 4),
                          folder / ("log" + std::to_string(rank))));
  }
  for (const pid_t rank : ranks) CHECK(code_of(rank) == 0);
  CHECK(csv(folder / "four.db") == csv(folder / "one.db"));
  CHECK(read(folder / "log0").find("100 points worked out") != std::string::npos);
  for (const char* silent : {"log1", "log2", "log3"}) CHECK(read(folder / silent).empty());
}

TEST_CASE("what a dead rank had in hand is given out again") {
  const Folder folder;
  const std::string points =
      base +
      "--accumulation 8 --vary strategy=zero3,fsdp2 --vary nodes=1:32 --vary "
      "micro_batch=1,2 ";
  REQUIRE(run(points + "--out " + (folder / "one.db")).code == 0);
  std::vector<pid_t> ranks;
  for (const int rank : {0, 1, 2}) {
    ranks.push_back(start(points + "-j 1 --out " + (folder / "dead.db"), as_rank(rank, 3),
                          folder / ("log" + std::to_string(rank))));
  }
  wait_for_points(folder / "dead.db", 10);
  kill(ranks[1], SIGKILL);
  CHECK(code_of(ranks[1]) == -SIGKILL);
  CHECK(code_of(ranks[0]) == 0);
  CHECK(code_of(ranks[2]) == 0);
  CHECK(csv(folder / "dead.db") == csv(folder / "one.db"));
}

TEST_CASE("a rank that comes too late finds that all is done, one without rank 0 says so") {
  const Folder folder;
  const std::string few = base + "--strategy ddp --vary nodes=1,2 --screen -j 1 --out ";
  const pid_t first = start(few + (folder / "s.db"), as_rank(0, 2), folder / "log0");
  CHECK(code_of(first) == 0);
  CHECK(code_of(start(few + (folder / "s.db"), as_rank(1, 2), folder / "log1")) == 0);
  // Another job's file is passed over. (Its patience is a minute, so only that it does not end.)
  std::vector<std::string> other = as_rank(1, 2);
  other.back() = "PMIX_NAMESPACE=another";
  const pid_t lost = start(few + (folder / "s.db"), other, folder / "log2");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(waitpid(lost, nullptr, WNOHANG) == 0);
  kill(lost, SIGKILL);
  code_of(lost);
}

TEST_CASE("screened and confirmed: the best by fluid beside all by formula") {
  const Folder folder;
  const Output o = run(grid + "--confirm 5 --json --out " + (folder / "s.db"));
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const Json sweep = Json::parse(o.out);
  std::size_t formula = 0, fluid = 0;
  for (const Json& point : sweep.at("points")) {
    (point.at("engine") == "formula" ? formula : fluid) += 1;
  }
  CHECK(formula == 100);
  // The best five, and the best three of each of five world sizes.
  CHECK(fluid >= 15);
  CHECK(fluid <= 20);
  for (const Json& index : sweep.at("pareto").at("points")) {
    const Json& point = sweep.at("points").at(index.get<std::size_t>());
    CHECK(point.at("fits") == true);
    CHECK(point.at("engine") == "fluid");
  }
}

TEST_CASE("--refused says a line where none was refused") {
  const Folder folder;
  const std::string db = folder / "small.db";
  const std::string sweep = "sweep --model gpt2 --cluster dgx-h100 --strategy ddp --screen ";
  REQUIRE(run(sweep + "--vary micro_batch=1,4096 -o " + db).code == 0);
  CHECK(run("results " + db + " --refused").out ==
        "none was refused; 1 of 2 do not fit in memory\n");
  CHECK(run("results " + db + " --refused --where \"micro_batch < 2\"").out ==
        "none was refused\n");
}

TEST_CASE("points that do not fit and points that are refused are results") {
  const Folder folder;
  const Output o = run(base +
                       "--vary strategy=dp,ddp --vary nodes=1,2 --vary micro_batch=1,4096 "
                       "--screen --out " +
                       (folder / "s.db"));
  CAPTURE(o.err);
  CHECK(o.code == 0);
  CHECK(o.out.find("8 points: 3 fit, 3 do not fit in memory, 2 are refused\n") == 0);
  CHECK(o.out.find("2 nodes are not accepted under dp") != std::string::npos);
  const Output none = run(base + "--strategy ddp --vary micro_batch=4096,8192 --screen --out " +
                          (folder / "none.db"));
  CHECK(none.code == 3);
  CHECK(none.err.find("stepcast: no point fits; the first: does not fit: ") != std::string::npos);
  const Output refused =
      run(base + "--strategy dp --vary nodes=2,4 --screen --out " + (folder / "refused.db"));
  CHECK(refused.code == 2);
  CHECK(refused.err.find("stepcast: every point is refused; the first: --vary: 2 nodes") !=
        std::string::npos);
}

TEST_CASE("results answers questions and exports what other programs read") {
  const Folder folder;
  REQUIRE(run(grid + "--screen --out " + (folder / "s.db")).code == 0);
  const std::string results = "results " + (folder / "s.db") + " ";
  CHECK(count_lines(run(results + "--all").out) == 101);
  CHECK(count_lines(run(results + "--top 3 --where 'nodes <= 2' --by mfu").out) > 5);
  CHECK(count_lines(run(results + "--group-by strategy").out) == 5);
  CHECK(count_lines(run(results + "--pareto world_size,tokens_per_s").out) > 3);
  const Output file = run(results + "--export " + (folder / "points.csv"));
  CHECK(file.code == 0);
  CHECK(read(folder / "points.csv") == csv(folder / "s.db"));
  CHECK(count_lines(csv(folder / "s.db")) == 101);
  const Json json = Json::parse(run(results + "--export json").out);
  CHECK(json.at("schema") == "stepcast.sweep/1");
  CHECK(json.at("points").size() == 100);
  CHECK(json.at("varied").at(0).at("key") == "micro_batch");
}

TEST_CASE("what is wrong with a sweep is said in one line, before any work") {
  const Folder folder;
  const std::string out = "--out " + (folder / "s.db") + " ";
  for (const std::string& arguments :
       {base + out + "--strategy ddp",
        base + out + "--vary nodes=1,2",
        base + out + "--strategy ddp --vary nodes=1,x",
        base + out + "--strategy ddp --vary nodes",
        base + out + "--strategy ddp --vary nodes=1,2 --where 'nodes <'",
        base + out + "--strategy ddp --vary nodes=1,2 --where 'nodes > 9'",
        base + out + "--strategy ddp --vary nodes=1,2 --sample sobol:x",
        base + out + "--strategy ddp --vary nodes=1,2 --by speed",
        base + out + "--strategy ddp --vary nodes=1,2 --by speed --count",
        base + out + "--strategy ddp --vary nodes=1,2 --engine fluid --screen",
        base + out + "--strategy ddp --vary nodes=1,2 --jobs 0",
        base + out + "--strategy ddp --vary nodes=1,2 --json --all",
        base + out + "--strategy ddp --vary nodes=1,2 --export points.xlsx",
        base + out + "--strategy ddp --vary nodes=1,2 --export /nowhere/points.csv",
        base + "--strategy ddp --vary nodes=1,2 --out /tmp",
        base + "--strategy ddp --vary nodes=1,2 --out /nowhere/s.db",
        base + "--strategy ddp --vary nodes=1,2 --out /dev/full",
        base + "--strategy ddp --vary nodes=1,2 --out ''",
        std::string("results /nowhere/s.db"),
        std::string("results /tmp"),
        std::string("results")}) {
    CAPTURE(arguments);
    const Output o = run(arguments);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK(o.out.empty());
    CHECK(count_lines(o.err) == 1);
  }
  CHECK_FALSE(std::filesystem::exists(folder / "s.db"));
  CHECK(run(base + "--strategy ddp --vary nodes=1,2,4,...,128 --count").out ==
        "8 points of 8 combinations; 0 left out by --where\n");
}

TEST_CASE("tune writes its best as another framework's configuration, of what that runs") {
  const Folder folder;
  const std::string step =
      "tune --model gpt2 --cluster dgx-h100 --seq-len 512 --keep micro_batch,checkpointing ";
  const Output o = run(step + "--emit deepspeed");
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(Json::parse(o.out).contains("zero_optimization"));
  CHECK(o.err.find("those that deepspeed runs: zero1, zero2, zero3, ddp") != std::string::npos);
  CHECK(o.err.find("deepspeed cannot say seq_len = 512") != std::string::npos);
  const Output both = run(step + "--emit torchtitan --json -o " + (folder / "best.toml"));
  REQUIRE(both.code == 0);
  const std::string strategy = Json::parse(both.out).at("best").at("knobs").at("strategy");
  CHECK((strategy == "ddp" || strategy == "fsdp2" || strategy == "hsdp"));
  const Output again =
      run("simulate --model gpt2 --cluster dgx-h100 --json --from " + (folder / "best.toml"));
  CAPTURE(again.err);
  REQUIRE(again.code == 0);
  CHECK(Json::parse(again.out).at("scenario").at("strategy") == strategy);
  for (const char* bad : {"--emit x", "--emit accelerate --json",
                          "--emit torchtitan --strategy zero3 --keep strategy"}) {
    CAPTURE(bad);
    const Output refused = run(step + bad);
    CHECK(refused.code == 2);
    CHECK(count_lines(refused.err) == 1);
  }
}

TEST_CASE("searches try the checkpointing that the model has") {
  const std::string step = " --model resnet-50 --cluster dgx-a100 --nodes 1 --strategy ddp ";
  const Json tuned = json_of("tune" + step + "--keep strategy,micro_batch,bucket_cap_mb");
  REQUIRE(tuned.at("knobs").size() == 1);
  CHECK(tuned.at("knobs").at(0).at("key") == "checkpointing");
  std::vector<std::string> values;
  for (const Json& other : tuned.at("knobs").at(0).at("values")) {
    CHECK(other.at("error").is_null());
    values.push_back(other.at("value"));
  }
  CHECK(values == std::vector<std::string>{"none", "full"});
  // 44 MB of activations an image: of 2,000 they do not fit, with each block's input alone they do.
  const Output advice = run("advise --model resnet-50 --cluster dgx-a100 --micro-batch 2000");
  CAPTURE(advice.err);
  CHECK(advice.code == 0);
  CHECK(advice.out.find("(full checkpointing)") != std::string::npos);
}

TEST_CASE("tune finds what a sweep over the same knobs finds, and writes it as a scenario") {
  const Folder folder;
  const std::string step = " --model gpt2 --cluster dgx-h100 --nodes 2 --seq-len 512 ";
  const Output o = run("tune" + step +
                       "--strategy ddp --keep strategy,checkpointing --global-batch "
                       "512 --json -o " +
                       (folder / "best.toml"));
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const Json tuned = Json::parse(o.out);
  const double best = tuned.at("best").at("outputs").at("samples_per_s");
  // 512 over 16 GPUs: 32 of each, as 1 x 32, 2 x 16, ... 32 x 1.
  const Output sweep = run("sweep" + step +
                           "--strategy ddp --vary micro_batch=1,2,4,...,32 --vary "
                           "accumulation=1,2,4,...,32 --vary bucket_cap_mb=5,25,100 --where "
                           "'micro_batch*accumulation == 32' --json --out " +
                           (folder / "s.db"));
  REQUIRE(sweep.code == 0);
  const Json points = Json::parse(sweep.out);
  CHECK(points.at("points").size() == 18);
  // A bucket size that gains less than half a percent on the default is left at it.
  for (const Json& point : points.at("points")) CHECK(point.at("samples_per_s") <= best * 1.005);
  const Json again = Json::parse(run("simulate --json " + (folder / "best.toml")).out);
  CHECK(again.at("samples_per_s") == best);
  CHECK(tuned.at("knobs").at(0).at("key") == "micro_batch");
  // What does not fit is no best; where nothing fits that is the answer.
  const Output none = run("tune --model llama-3-70b --cluster dgx-h100 --gpus 1 --seq-len 8192");
  CHECK(none.code == 3);
  CHECK(none.err.find("no combination fits") != std::string::npos);
  for (const char* bad :
       {"--global-batch 17", "--keep nodes", "--headroom 2", "--engine fluid",
        "-o /nowhere/best.toml", "--keep micro_batch,accumulation --global-batch 64"}) {
    CAPTURE(bad);
    const Output refused = run("tune --strategy ddp" + step + bad);
    CHECK(refused.code == 2);
    CHECK(count_lines(refused.err) == 1);
  }
}
