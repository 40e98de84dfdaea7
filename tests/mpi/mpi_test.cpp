// The program as several processes under mpirun: numbers, words, and what is left when ranks die.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

using Json = nlohmann::json;

const std::string step = " --cluster dgx-h100 --model residual-mlp --precision fp32 ";

TEST_CASE("train under mpirun ends with the parameters of one rank") {
  struct Case {
    int ranks;
    const char* what;
  };
  for (const Case c : {Case{2, "ddp --accumulation 3"}, Case{3, "zero2"},
                       Case{4, "hsdp --shard-group 2 --checkpointing full"}}) {
    CAPTURE(c.what);
    const std::string n = std::to_string(c.ranks);
    const Output o = run("launch -n " + n + " run --compute train --float64 --json" + step +
                         "--gpus " + n + " --strategy " + c.what);
    CAPTURE(o.err);
    REQUIRE(o.code == 0);
    const Json j = Json::parse(o.out);  // one rank prints
    CHECK(j.at("ranks") == c.ranks);
    CHECK(j.at("largest_relative_difference") <= 1e-12);
    const double first = j.at("losses").at(0);
    CHECK(first == doctest::Approx(j.at("one_rank_losses").at(0).get<double>()));
  }
}

TEST_CASE("replay under mpirun prints the page of simulate") {
  const Output o = run("launch -n 2 run --json --steps 2 --gpus 2 --strategy fsdp2" + step);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const Json ran = Json::parse(o.out);
  CHECK(ran.at("scenario").at("engine").get<std::string>().find("cpu processes, Open MPI") == 0);
  const Json forecast = Json::parse(run("simulate --json --gpus 2 --strategy fsdp2" + step).out);
  CHECK(ran.at("step_time_s") >= forecast.at("time_s").at("compute"));
  CHECK(ran.at("collectives").size() == forecast.at("collectives").size());
}

TEST_CASE("a calibration of two processes is read by simulate, validate compares with it") {
  const TemporaryFile file(".toml", "");
  const std::string two = "launch -n 2 ";
  const Output measured =
      run(two + "calibrate --quick --sizes-mb 0.01,0.1 --dtypes fp32 --name here" + " --output " +
          file.path());
  CAPTURE(measured.err);
  REQUIRE(measured.code == 0);
  CHECK(measured.err.find("[1/6] all_reduce of 2 ranks, world, fp32") == 0);  // said once
  CHECK(measured.err.find("[1/6]", 1) == std::string::npos);
  const Output o = run(two + "validate --json --steps 3 --gpus 2 --strategy ddp --calibration " +
                       file.path() + step);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  const Json j = Json::parse(o.out);
  CHECK(j.at("ranks") == 2);
  CHECK(j.at("step").at("forecast_s") > 0);
  CHECK(j.at("step").at("measured_s") > 0);
}

TEST_CASE("what is wrong with the input is said once, by rank 0") {
  const Output o = run("launch -n 2 run --gpus 3 --strategy ddp" + step);
  CHECK(o.code == 2);
  CHECK(o.err ==
        "stepcast: --gpus: the step has 3 ranks and 2 processes were started; accepted: as many "
        "processes as ranks\n");
}

// ---- Ranks that die -----------------------------------------------------------------------------

// Processes with this entry in their environment; of them rank `rank`, where it is not -1.
std::vector<pid_t> processes(const std::string& mark, int rank = -1) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = '\0' + read(entry.path() / "environ");
    if (environment.find('\0' + mark + '\0') == std::string::npos) continue;
    const std::string as_rank = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
    if (rank >= 0 && environment.find('\0' + as_rank + '\0') == std::string::npos) continue;
    found.push_back(std::stoi(name));
  }
  return found;
}

// Starts an endless run on three ranks, does something to rank 1, and returns what was said.
std::string after(int signal, int watchdog) {
  const std::string mark = "STEPCAST_TEST=" + std::to_string(getpid());
  Output output;
  std::thread running([&] {
    setenv("STEPCAST_TEST", std::to_string(getpid()).c_str(), 1);
    output = run("launch -n 3 run -v --steps 10000 --gpus 3 --strategy ddp --watchdog " +
                 std::to_string(watchdog) + step);
  });
  // A rank has many steps behind it two seconds after it started.
  std::vector<pid_t> ranks;
  while ((ranks = processes(mark, 1)).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));
  for (const pid_t pid : ranks) kill(pid, signal);
  running.join();
  CHECK(output.code == 1);
  CHECK(processes(mark).empty());
  return output.err;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a rank that is killed: the others say which collective waits for it, and end") {
  const std::string said = after(SIGKILL, 60);
  CAPTURE(said);
  for (const char* rank : {"rank 0: ", "rank 2: "}) CHECK(contains(said, rank));
  CHECK(contains(said, "on communicator world"));
  CHECK(contains(said, "waits for rank 1"));
  CHECK(contains(said, "rank 1 does not answer"));
  CHECK(contains(said, "stepcast: launch: a rank, or mpirun, was ended by signal 9 (Killed)\n"));
  CHECK(!contains(said, "mpirun noticed"));
  // Every line is the program's own, but for what Open MPI's shared memory says where it was
  // reading the dead rank's: "[host:pid] Read -1, expected 17812, errno = 3".
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line.front() == '[' && contains(line, "] Read -1, expected ")) continue;
    CHECK(line.rfind("stepcast: ", 0) == 0);
  }
}

TEST_CASE("a rank that is stopped: the others end within the timeout and name it") {
  const std::string said = after(SIGSTOP, 2);
  CAPTURE(said);
  for (const char* rank : {"rank 0: ", "rank 2: "}) CHECK(contains(said, rank));
  CHECK(contains(said, "on communicator world"));
  CHECK(contains(said, "waits for rank 1"));
  CHECK(contains(said, "rank 1 does not answer"));
}

TEST_CASE("a sweep on three ranks, of which one is killed, makes the table of one process") {
  char name[] = "/tmp/stepcast-mpi-XXXXXX";
  const std::string folder = mkdtemp(name);
  const std::string points =
      "sweep --model gpt2 --cluster dgx-h100 --seq-len 512 --accumulation 8 --vary "
      "strategy=zero3,fsdp2 --vary nodes=1:32 --vary micro_batch=1,2 --out ";
  REQUIRE(run(points + folder + "/one.db").code == 0);
  const std::string mark = "STEPCAST_TEST=" + std::to_string(getpid());
  Output output;
  std::thread running([&] {
    setenv("STEPCAST_TEST", std::to_string(getpid()).c_str(), 1);
    output = run("launch -n 3 " + points + folder + "/three.db");
  });
  std::vector<pid_t> ranks;
  while ((ranks = processes(mark, 1)).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (const pid_t pid : ranks) kill(pid, SIGKILL);
  running.join();
  CAPTURE(output.err);
  CHECK(output.code == 0);
  CHECK(run("results --export csv " + folder + "/three.db").out ==
        run("results --export csv " + folder + "/one.db").out);
  std::filesystem::remove_all(folder);
}

}  // namespace
