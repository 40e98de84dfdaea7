// What the program prints, as programs and people read it.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run.hpp"

using namespace stepcast::test;
using Json = nlohmann::json;

namespace {

const std::string small = "simulate --model gpt2 --cluster dgx-h100 --micro-batch 2 ";

// Rows without a list of ranks: busbw over algbw says 16.
std::string sixteen_ranks_log() {
  return "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor)\n"
         "#       size         count      type   redop    root     time   algbw   busbw #wrong     "
         "time   algbw   busbw #wrong\n"
         "     1048576        262144     float     sum      -1    100.0   10.49   19.66      0    "
         "100.0   10.49   19.66      0\n"
         "     4194304       1048576     float     sum      -1    200.0   20.97   39.32      0    "
         "200.0   20.97   39.32      0\n";
}

std::string all_to_all_log() {
  return "# Collective test starting: alltoall_perf\n" + sixteen_ranks_log();
}

}  // namespace

TEST_CASE("odd numbers of GPUs run under every strategy that is built") {
  for (const char* strategy : {"ddp", "fsdp2", "hsdp"}) {
    for (const int gpus : {1, 3, 6, 12, 20}) {
      const Json j = json_of(small + "--strategy " + strategy + " --gpus " + std::to_string(gpus));
      CAPTURE(strategy);
      CAPTURE(gpus);
      CHECK(j.at("step_time_s").get<double>() > 0);
      CHECK(j.at("scenario").at("gpus") == gpus);
      CHECK(j.at("fits") == true);
    }
  }
}

TEST_CASE("the JSON document is complete and its time adds up") {
  const Json j = json_of(small + "--strategy fsdp2 --gpus 16");
  for (const char* key : {"schema", "step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu",
                          "hfu", "exposed_s", "bytes_sent_per_gpu", "memory_bytes", "fits",
                          "provenance", "collectives", "notes"}) {
    CAPTURE(key);
    CHECK(j.contains(key));
  }
  const Json& t = j.at("time_s");
  double sum = 0;
  for (const auto& [name, seconds] : t.items()) sum += seconds.get<double>();
  CHECK(sum == doctest::Approx(j.at("step_time_s").get<double>()).epsilon(1e-9));
  double exposed = 0;
  for (const auto& [cause, seconds] : j.at("exposed_s").items()) exposed += seconds.get<double>();
  CHECK(exposed == doctest::Approx(t.at("exposed").get<double>()).epsilon(1e-9));
  double rows = 0;
  for (const Json& row : j.at("collectives")) rows += row.at("sent_intra_bytes").get<double>();
  double kinds = 0;
  for (const auto& [kind, sent] : j.at("bytes_sent_per_gpu").items()) {
    kinds += sent.at("intra_node").get<double>();
  }
  CHECK(rows == doctest::Approx(kinds));
}

TEST_CASE("every key that the JSON schema requires is there, and none that it does not know") {
  const Json schema = Json::parse(read(STEPCAST_SOURCE_DIR "/docs/schemas/forecast-1.schema.json"));
  const Json j = json_of(small + "--strategy hsdp --gpus 16");
  for (const Json& key : schema.at("required")) CHECK(j.contains(key.get<std::string>()));
  for (const auto& [key, value] : j.items()) {
    CAPTURE(key);
    CHECK(schema.at("properties").contains(key));
  }
}

TEST_CASE("the page has at most 100 columns and one screen") {
  for (const char* strategy : {"ddp", "fsdp2", "hsdp"}) {
    const Output o = run(small + "--nodes 4 --strategy " + strategy);
    CHECK(o.code == 0);
    CHECK(o.err.empty());
    CHECK(count_lines(o.out) <= 50);
    std::stringstream lines(o.out);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
      for (const char c : line) CHECK(static_cast<unsigned char>(c) < 128);  // not a terminal
    }
  }
}

TEST_CASE("a trace is written whole and is one that Perfetto reads") {
  const TemporaryFile trace(".json", "old");
  const Output o = run(small + "--strategy fsdp2 --trace " + trace.path());
  CHECK(o.code == 0);
  const Json j = Json::parse(read(trace.path()));
  std::size_t slices = 0;
  bool compute = false;
  for (const Json& event : j.at("traceEvents")) {
    slices += event.at("ph") == "X";
    if (event.at("ph") == "M" && event.at("args").contains("name")) {
      compute |= event.at("args").at("name") == "stream 7 (compute)";
    }
  }
  CHECK(slices > 100);
  CHECK(compute);
}

TEST_CASE("a step that does not fit is printed, then one line says what would, and exit is 3") {
  const Output o = run("simulate --model llama-3-8b --cluster dgx-h100 --strategy ddp");
  CHECK(o.code == 3);
  CHECK(o.out.find("DOES NOT FIT") != std::string::npos);
  CHECK(count_lines(o.err) == 1);
  CHECK(o.err.find("strategy fsdp2") != std::string::npos);
  const Output tables = run("simulate --params 70e9 --gpus 8 --gpu h100-sxm --strategy fsdp2");
  CHECK(tables.code == 3);
  CHECK(count_lines(tables.err) == 1);
  CHECK(tables.err.find("140 GB") != std::string::npos);
  CHECK(run("simulate --params 70e9 --gpus 64 --gpu h100-sxm --strategy fsdp2").code == 0);
  // Without a capacity there is nothing to fit.
  CHECK(run("simulate --params 70e9 --gpus 8").code == 0);
}

TEST_CASE(
    "gradients that are never reduced: one line with bucket, parameter, ranks, cure, exit 3") {
  const std::string step = "simulate --model gpt2 --cluster dgx-h100 --strategy ddp";
  const std::string unused = " --unused-parameters '*h.3.ln_1.*'";
  const Output everywhere = run(step + unused);
  CHECK(everywhere.code == 3);
  CHECK(everywhere.out.empty());
  CHECK(count_lines(everywhere.err) == 1);
  CHECK(everywhere.err.find("h.3.ln_1.weight' gets no gradient on all 8 ranks, so bucket") !=
        std::string::npos);
  for (const char* engine : {"formula", "fluid"}) {
    const Output some =
        run(step + unused + " --unused-on-ranks 2,5 --engine " + std::string(engine));
    CHECK(some.code == 3);
    CHECK(count_lines(some.err) == 1);
    CHECK(some.err.find("on ranks 2, 5, so bucket") != std::string::npos);
    CHECK(some.err.find("the other ranks hang in its all-reduce") != std::string::npos);
    CHECK(some.err.find("find_unused_parameters cures it [no op can go on") != std::string::npos);
  }
  CHECK(run(step + unused + " --unused-on-ranks 2,5 --find-unused-parameters").code == 0);
}

TEST_CASE("flags override the scenario file") {
  const TemporaryFile file(
      ".toml",
      "model = \"gpt2\"\ncluster = \"dgx-h100\"\nnodes = 2\nstrategy = \"ddp\"\n"
      "engine = \"formula\"\n");
  CHECK(json_of("simulate " + file.path()).at("scenario").at("gpus") == 16);
  const Json j = json_of("simulate " + file.path() + " --gpus 4 --strategy fsdp2 --seq-len 512");
  CHECK(j.at("scenario").at("gpus") == 4);
  CHECK(j.at("scenario").at("strategy") == "fsdp2");
  CHECK(j.at("scenario").at("seq_len") == 512);
  CHECK(j.at("scenario").at("engine") == "formula");
}

TEST_CASE("the time of a replica's step may be said with its unit, over the scenario's") {
  const std::string step = small + "--strategy ddp --gpus 16 --replica-gpus 2 ";
  const Json j = json_of(step + "--replica-step-ms 120");
  for (const char* time : {"120ms", "0.12s", "120000us"}) {
    CAPTURE(time);
    CHECK(json_of(step + "--replica-step " + time) == j);
  }
  const TemporaryFile file(".toml",
                           "model = \"gpt2\"\ncluster = \"dgx-h100\"\ngpus = 16\nmicro_batch = 2\n"
                           "strategy = \"ddp\"\nreplica_gpus = 2\nreplica_step_ms = 9\n");
  CHECK(json_of("simulate " + file.path() + " --replica-step 0.12s").at("step_time_s") ==
        j.at("step_time_s"));
}

TEST_CASE("a scenario is emitted as its framework's configuration, which reads back") {
  const TemporaryFile file(".json", run("emit deepspeed --model gpt2 --strategy zero2 --gpus 8 "
                                        "--micro-batch 4")
                                        .out);
  const Json config = Json::parse(read(file.path()));
  CHECK(config.at("train_micro_batch_size_per_gpu") == 4);
  CHECK(config.at("zero_optimization").at("stage") == 2);
  const Json j = json_of("simulate --model gpt2 --cluster dgx-h100 --from " + file.path());
  CHECK(j.at("scenario").at("strategy") == "zero2");
  const Output o = run("emit accelerate --model gpt2 --strategy ddp --gpus 8 --micro-batch 4");
  CHECK(o.code == 0);
  CHECK(o.err.find("accelerate cannot say micro_batch = 4") != std::string::npos);
}

TEST_CASE("quiet by default, and -v says what was done on stderr only") {
  const Output quiet = run(small + "--strategy ddp");
  const Output loud = run(small + "--strategy ddp -v");
  CHECK(quiet.err.empty());
  CHECK_FALSE(loud.err.empty());
  CHECK(quiet.out == loud.out);
}

TEST_CASE("the same question has the same answer") {
  const std::string arguments = small + "--strategy hsdp --nodes 2 --json";
  CHECK(run(arguments).out == run(arguments).out);
}

TEST_CASE("every example runs") {
  for (const char* example :
       {"llama-3-8b-fsdp2-16-nodes", "llama-2-7b-hsdp-4-nodes", "gpt2-ddp-8-gpus",
        "llama-3-70b-fsdp2-16384-gpus", "gpt2-large-ddp-2-gpus-without-nvlink", "gpt2-dp-2-gpus"}) {
    CAPTURE(example);
    const Output o = run(std::string("simulate examples/") + example + ".toml");
    CAPTURE(o.err);
    CHECK(o.code == 0);
  }
}

TEST_CASE("help names every subcommand and each subcommand has an example") {
  const Output top = run("--help");
  CHECK(top.code == 0);
  for (const char* command : {"simulate", "list", "show"}) {
    CHECK(top.out.find(command) != std::string::npos);
    const Output help = run(std::string(command) + " --help");
    CHECK(help.code == 0);
    CHECK(help.out.find("Example:\n  stepcast " + std::string(command)) != std::string::npos);
  }
  CHECK(run("--version").out.starts_with("stepcast "));
}

TEST_CASE("everything that is listed can be shown") {
  for (const char* what : {"model", "gpu", "machine"}) {
    const Output list = run(std::string("list ") + what + "s");
    CHECK(list.code == 0);
    CHECK(count_lines(list.out) >= 12);
    std::stringstream lines(list.out);
    for (std::string line; std::getline(lines, line);) {
      const std::string name = line.substr(0, line.find(' '));
      CAPTURE(name);
      CHECK(run("show " + std::string(what) + " " + name).code == 0);
    }
  }
  CHECK(run("list profiles").code == 0);
  CHECK(run("list strategies").out.find("fsdp2    precision bf16-mixed") != std::string::npos);
}

TEST_CASE("a trace may go to a pipe, and what cannot be written is an error") {
  const Output piped = run(small + "--strategy ddp --engine formula --json --trace /dev/stderr");
  CHECK(piped.code == 0);
  CHECK(Json::accept(piped.out));
  const Output full = run("list models 2>/dev/null >/dev/full; exit $? #");
  CHECK(full.code == 1);
}

TEST_CASE("sizes that two logs have are said on stderr, and the smaller time counts") {
  const std::string log = "tests/unit/collectives/logs/old2.10-8xA100-40GB-1node-allreduce.log";
  const Output once = run("nccl import " + log);
  const Output twice = run("nccl import " + log + " " + log);
  CHECK(once.err.empty());
  CHECK(twice.code == 0);
  CHECK(twice.err.find("32 of its 32 sizes are in an earlier log of all_reduce, 8 ranks on 1 node, "
                       "too: the smaller time of each counts") != std::string::npos);
  CHECK(count_lines(twice.err) == 1);
}

TEST_CASE("variables of NCCL that change nothing are said on stderr, the table is the same") {
  const std::string question = "nccl predict --cluster dgx-h100 --nodes 2";
  const Output plain = run(question);
  const Output pasted = run(question + " --nccl NCCL_DEBUG=INFO --nccl NCCL_SOCKET_FAMILY=AF_INET");
  CHECK(plain.err.empty());
  CHECK(pasted.out == plain.out);
  CHECK(pasted.err.find("NCCL_DEBUG (what is logged); NCCL_SOCKET_FAMILY") != std::string::npos);
}

TEST_CASE("protocols are named in any case, as NCCL takes them") {
  const std::string question =
      "collectives --ranks 8 --bytes 1M --cluster dgx-h100 --engine messages --protocol ";
  const Output upper = run(question + "LL128");
  const Output lower = run(question + "ll128");
  CHECK(lower.code == 0);
  CHECK(lower.out.find("Ring/LL128") != std::string::npos);
  CHECK(lower.out == upper.out);
  CHECK(run(question + "SIMPLE").out == run(question + "Simple").out);
}

TEST_CASE("a name alone is shown, whatever it names") {
  for (const std::string full : {"machine dgx-h100", "gpu b300", "model llama-3-8b"}) {
    CAPTURE(full);
    const Output alone = run("show " + full.substr(full.find(' ') + 1));
    CHECK(alone.code == 0);
    CHECK(alone.out == run("show " + full).out);
  }
  CHECK(run("show b30").err.find("did you mean '") != std::string::npos);
  CHECK(run("show gpu").err.find("gpu needs a name; `stepcast list gpus`") != std::string::npos);
}

TEST_CASE("what is written is said, a line each") {
  const std::string folder = "/tmp/stepcast-written-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const Output o = run(small + "--strategy ddp --engine formula --trace " + folder +
                       "/t.json --picture " + folder + "/p.svg --memory-snapshot " + folder +
                       "/m.pickle --report " + folder + "/r.html --chakra " + folder + "/c");
  CHECK(o.code == 0);
  CHECK(count_lines(o.err) == 5);
  for (const char* said :
       {"trace written to ", "8 Chakra traces written to ", "picture written to ",
        "memory snapshot written to ", "report written to "}) {
    CAPTURE(said);
    CHECK(o.err.find("stepcast: note: " + std::string(said) + folder) != std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a sequence length that nobody said is said where it is long, and shorter ones tried") {
  const std::string model =
      "simulate --model llama-3.1-405b --cluster dgx-h100 --nodes 64 "
      "--strategy fsdp2 --checkpointing full --engine formula ";
  const Output unsaid = run(model);
  CHECK(unsaid.out.find("seq_len was not said: the model's maximum, 131,072") != std::string::npos);
  CHECK(run(model + "--seq-len 8192").out.find("was not said") == std::string::npos);
  const Output gpt2 = run(small + "--strategy ddp --engine formula");
  CHECK(gpt2.out.find("was not said") == std::string::npos);
  const Output large =
      run("simulate --model llama-3.2-1b --cluster dgx-a100 --strategy ddp "
          "--engine formula");
  CHECK(large.code == 3);
  CHECK(large.err.find("instead of the model's maximum") != std::string::npos);
}

TEST_CASE("a perturbed page says whose the headline's time is") {
  const Output o = run(small + "--strategy ddp --perturb rank=3:late=1s");
  CHECK(o.out.find("   (unperturbed)\n") != std::string::npos);
  CHECK(run(small + "--strategy ddp").out.find("unperturbed") == std::string::npos);
}

TEST_CASE("columns of models stay columns, and large counts have their commas") {
  std::stringstream lines(run("list models").out);
  std::size_t column = 0;
  for (std::string line; std::getline(lines, line);) {
    if (column == 0) column = line.find(" parameters,");
    CAPTURE(line);
    CHECK(line.find(" parameters,") == column);
  }
  const Output o =
      run("simulate --model gpt2 --cluster dgx-h100 --nodes 2048 --strategy fsdp2 "
          "--engine formula");
  CHECK(o.out.find("sharded over 16,384\n") != std::string::npos);
  CHECK(o.out.find("16,384 GPUs: 2,048 x") != std::string::npos);
  const Output rack =
      run("simulate --model gpt2 --cluster gb300-nvl72 --strategy ddp "
          "--engine formula");
  CHECK(rack.out.find("))") == std::string::npos);
}

TEST_CASE("ranks of a collective are the cluster's GPUs where nobody says them") {
  CHECK(run("collectives --cluster dgx-h100 --nodes 2").out ==
        run("collectives --cluster dgx-h100 --ranks 16").out);
  CHECK(run("collectives --cluster dgx-h100").out ==
        run("collectives --cluster dgx-h100 --ranks 8").out);
  CHECK(run("collectives --cluster dgx-h100 --nodes 2 --ranks 8")
            .err.find("--ranks: 8 are not the 16 GPUs of --nodes") != std::string::npos);
  CHECK(run("collectives").err.find("--ranks: is missing") != std::string::npos);
}

TEST_CASE(
    "of several logs those of other operations are left out, and nodes follow from a machine") {
  const std::string folder = "tests/unit/collectives/logs/";
  const std::string good = folder + "old2.10-8xA100-40GB-1node-allreduce.log";
  const TemporaryFile other(".log", all_to_all_log());
  const Output both = run("nccl import " + good + " " + other.path());
  CHECK(both.code == 0);
  CHECK(both.err.find("measures alltoall") != std::string::npos);
  CHECK(both.err.find("left out") != std::string::npos);
  CHECK(both.out == run("nccl import " + good).out);
  CHECK(run("nccl import " + other.path()).code == 2);
  const TemporaryFile silent(".log", sixteen_ranks_log());
  CHECK(run("nccl import " + silent.path()).err.find("give --log-nodes") != std::string::npos);
  const Output placed = run("nccl compare " + silent.path() + " --cluster dgx-h100");
  CHECK(placed.code == 0);
  CHECK(placed.err.find("its 16 ranks ran: 2 of 8 GPUs; --log-nodes says otherwise") !=
        std::string::npos);
  CHECK(placed.out ==
        run("nccl compare " + silent.path() + " --cluster dgx-h100 --log-nodes 2").out);
}
