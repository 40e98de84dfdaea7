// Whatever is wrong, the answer is one line on stderr that names it, nothing on stdout, exit 2.
#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <sstream>
#include <vector>

#include "tests/cli/run.hpp"

using namespace stepcast::test;

namespace {

const std::string good = "simulate --model gpt2 --cluster dgx-h100 --strategy ddp --engine formula";

struct Row {
  std::string arguments;
  std::vector<std::string> parts;  // of the message
};

void check_refused(const Row& row) {
  const Output o = run(row.arguments);
  CAPTURE(row.arguments);
  CAPTURE(o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  CHECK(count_lines(o.err) == 1);
  CHECK(o.err.starts_with("stepcast: "));
  for (const std::string& part : row.parts) {
    CAPTURE(part);
    CHECK(o.err.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("wrong flags are refused with the flag, the value and what is accepted") {
  const Row rows[] = {
      {good + " --from nothere.json", {"nothere.json", "cannot be read"}},
      {good + " --from tests", {"tests", "is a directory"}},
      {good + " --from /dev/null",
       {"/dev/null: says nothing; accepted: ", "accelerate", "torchtitan"}},
      {good + " --nic-gbps 400",
       {"--nic-gbps: 400 is in GB/s", "accepted: up to 200 (400 Gb/s are 50)"}},
      {good + " --cluster b300", {"did you mean 'hgx-b300'"}},
      {good + " --precision fp16", {"did you mean 'amp-fp16'"}},
      {"simulate --model llama-3-8b --cluster dgx-h100 --strategy fsdp2 --replica-gpus 8 "
       "--replica-step-ms 10",
       {"--replica-step-ms: 10 ms is less than 8 GPUs", "989.4 TFLOP/s, the dense bf16 peak",
        "accepted: from 46."}},
      {good + " --replica-gpus 2 --replica-step 120",
       {"--replica-step: '120' is not accepted; accepted: a time with its unit (us, ms, s, min)"}},
      {good + " --replica-gpus 2 --replica-step 120mss", {"--replica-step: '120mss'"}},
      {good + " --replica-gpus 2 --replica-step nans", {"--replica-step: 'nans'"}},
      {good + " --replica-gpus 2 --replica-step 0ms", {"--replica-step: '0ms'", "1us to 1e6s"}},
      {good + " --replica-gpus 2 --replica-step 9ms --replica-step-ms 9",
       {"--replica-step: says what --replica-step-ms says"}},
      {"simulate --model llama-3-8b --cluster dgx-h100 --strategy fsdp2 --replica-gpus 8 "
       "--replica-step 0.01s",
       {"--replica-step: 10 ms is less than 8 GPUs", "accepted: from 46."}},
      {"topo import /dev/null", {"/dev/null: is empty", "topology.yaml, ibnetdiscover"}},
      {"nccl predict --cluster dgx-h100 --nodes 1 --gpus 9", {"--gpus: 9 do not fit on 1 node"}},
      {"nccl predict --cluster rtx-4090-8x --gpus 16", {"--gpus: rtx-4090-8x has no NIC"}},
      {"collectives --ranks 16 --cluster rtx-4090-8x", {"--ranks: rtx-4090-8x has no NIC"}},
      {"nccl predict --cluster dgx-h100 --op broadcast --nccl NCCL_ALGO=tree --nccl PROTO=ll",
       {"--nccl: NCCL_ALGO=Tree, NCCL_PROTO=LL: leaves broadcast nothing to run with",
        "accepted: Ring/LL, Ring/LL128, Ring/Simple"}},
      {"nccl predict --cluster dgx-h100 --nccl NCCL_ALGO=rign",
       {"--nccl: NCCL_ALGO: 'rign'", "did you mean 'Ring'?", "NVLSTree, PAT"}},
      {"nccl predict --cluster dgx-h100 --nccl NCCL_PROTO='ll;simple'",
       {"--nccl: NCCL_PROTO: 'simple' names no function", "accepted: [function:]list"}},
      {"collectives --ranks 256 --bytes 1G --cluster dgx-h100 --engine messages --protocol ll",
       {"--bytes: 256 ranks send 16711680 messages by Ring/LL", "Tree/LL", " s here",
        "accepted: up to about", "or --go-on"}},
      {"collectives --ranks 512 --cluster dgx-h100 --engine messages",
       {"--ranks: 512 ranks send", "accepted: up to 256, or --go-on"}},
      {"nccl import x --log-ranks 99999999", {"--log-ranks", "2 to 16777216"}},
      {"nccl import tests/unit/collectives/logs/old2.10-8xA100-40GB-1node-allreduce.log "
       "tests/unit/collectives/logs/2.17.1-2x4xGH200-cscs-alps-socket-allreduce.log",
       {"2.17.1-2x4xGH200-cscs-alps-socket-allreduce.log: was measured on NVIDIA GH200 120GB, ",
        "old2.10-8xA100-40GB-1node-allreduce.log on ",
        "A100-SXM4-40GB; accepted: logs of one GPU"}},
      {"nccl predict --cluster dgx-h100 -f nan", {"-f: 'nan'", "accepted: 1.01 to 1e6"}},
      {"nccl predict --cluster dgx-h100 -f inf", {"-f: 'inf'", "accepted: 1.01 to 1e6"}},
      {"nccl predict --cluster dgx-h100 --op all_gather --redop max",
       {"--redop: all_gather reduces nothing; accepted: without --redop, or --op all_reduce"}},
      {"topo import tests/unit/importers/data/smi/2xRTX3090-nvlink-bridge-NV4.txt --nic-speed nan",
       {"--nic-speed: 'nan'", "accepted: Gb/s up to 1e6"}},
      {good + " --from examples/gpt2-ddp-8-gpus.toml", {"without --from"}},
      {good + " --ignore-unsupported", {"--ignore-unsupported", "needs --from"}},
      {"simulate --from examples/jobs/deepspeed-zero3.json --model gpt2 --cluster dgx-h100",
       {"deepspeed-zero3.json:3", "train_micro_batch_size_per_gpu", "--micro-batch"}},
      {"simulate --from examples/jobs/accelerate-fsdp2.yaml --cluster dgx-h100",
       {"--model", "accelerate-fsdp2.yaml: names no model"}},
      {"import job", {"files"}},
      {good + " --picture nowhere/at/all.svg", {"--picture", "nowhere/at", "not there"}},
      {good + " --memory-snapshot tests", {"--memory-snapshot", "'tests' is a directory"}},
      {"plan --model gpt2 --tokens 1e9 --workers ''", {"--workers", "''", "accepted: a number"}},
      {"plan --model gpt2 --tokens 1e9 --seed 1x", {"--seed", "'1x'", "a number"}},
      {"plan --model gpt2 --tokens 1e9 --tuned-batch-tokens 1e-320", {"--tuned-batch-tokens"}},
      {"tune --model gpt2 --cluster dgx-h100 --headroom nan", {"--headroom", "'nan'", "0 to 0.95"}},
      {"sweep --by mfu --by mfu", {"--by", "more than once"}},
      {"schema ''", {"name", "'' is not accepted"}},
      {"calibrate --watchdog nan", {"--watchdog", "--executor nccl"}},
      {"calibrate --gpus-per-node 8", {"--gpus-per-node", "--from-trace"}},
      {"import job examples/jobs/accelerate-fsdp2.yaml --emit deepsped",
       {"--emit", "did you mean 'deepspeed'"}},
      {"import job examples/jobs/accelerate-fsdp2.yaml --emit deepspeed",
       {"does not run fsdp2", "zero1"}},
      {"import job examples/jobs/accelerate-fsdp2.yaml --nodes 0", {"--nodes", "1 to"}},
      {"import job examples/jobs/accelerate-fsdp2.yaml -o nowhere/at/all.toml", {"nowhere/at"}},
      {"launch -n 2 --network nosuchif0 run", {"--network", "'nosuchif0'", "lo"}},
      {"launch -n 2 --hosts a:0,b:2 --print run", {"--hosts", "'a:0'", "a:2,b:2"}},
      {"launch -n 2 --hosts 'a;b:2' --print run", {"--hosts", "'a;b:2'"}},
      {"launch -n 2 --hosts , --print run", {"--hosts", "''"}},
      {"launch -n 2 --hosts nosuch.invalid:2 run",
       {"--hosts: no host 'nosuch.invalid' is known here", "accepted: names or addresses"}},
      {"launch -n 4 --hosts a,b:2 --print run", {"--hosts", "3 slots for 4 ranks"}},
      {"run " + good.substr(good.find(' ') + 1) + " --steps 0", {"--steps", "0", "1 to"}},
      {"run " + good.substr(good.find(' ') + 1) + " --stretch 0", {"--stretch", "0", "1 to"}},
      {"validate --check", {"--check", "needs --published"}},
      {"validate --page x.md", {"--page", "needs --published"}},
      {"nccl compare --published --cluster dgx-h100", {"--published", "without cluster"}},
      {good + " --perturb rank=0:missing,rank=0:late=5s", {"--perturb", "'rank=0:missing'"}},
      {"import model no-such-file.json", {"no-such-file.json"}},
      {"import model tests", {"tests", "directory without a config.json"}},
      {"import model README.md", {"README.md", "config.json"}},
      {"import model gpt2 -o no-such-folder/model.toml", {"no-such-folder/model.toml"}},
      {good + " --replica-gpus 3", {"--replica-gpus", "3", "divisor of 8"}},
      {good + " --replica-gpus 2", {"--replica-step-ms", "is missing"}},
      {good + " --replica-gpus 2 --replica-step-ms nan", {"--replica-step-ms", "nan"}},
      {good + " --replica-gpus 2 --replica-step-ms 0", {"--replica-step-ms", "0"}},
      {good + " --replica-gpus 4 --replica-inner 3 --replica-step-ms 9",
       {"--replica-inner", "3", "divisor of 4"}},
      {"run " + good.substr(good.find(' ') + 1) + " --replica-gpus 2 --replica-step-ms 9",
       {"replica_gpus", "is for stepcast simulate"}},
      {good + " --modle gpt2", {"--modle", "did you mean '--model'"}},
      {good + " --strategy=ddpp", {"--strategy", "ddpp", "did you mean 'ddp'"}},
      {good + " --seq-len ''", {"--seq-len", "'' is not accepted"}},
      {good + " --model ''", {"--model", "'' is not accepted"}},
      {good + " --gpu b200", {"--gpu", "--params only"}},
      {good + " --precision foo", {"--precision", "'foo'", "amp-bf16"}},
      {good + " --precision bf16-mixed", {"--precision", "'bf16-mixed'", "amp-bf16"}},
      {good + " --trace same.json --picture same.json", {"--picture", "same.json", "--trace"}},
      {good + " --nodes -4", {"--nodes", "-4", "1 to"}},
      {good + " --gpus 0", {"--gpus", "0", "1 to"}},
      {good + " --micro-batch two", {"--micro-batch", "'two'", "whole number"}},
      {good + " --micro-batch 1.5", {"--micro-batch", "'1.5'"}},
      {good + " --micro-batch 15e-1", {"--micro-batch", "'15e-1'", "whole number, also as 5e8"}},
      {good + " --micro-batch 2^4", {"--micro-batch", "'2^4'"}},
      {good + " --seq-len 1e16", {"--seq-len", "'1e16'", "2^53"}},
      {good + " --seq-len 1e999", {"--seq-len", "'1e999'"}},
      {good + " --micro-batch 2e9", {"--micro-batch", "2e9", "1 to"}},
      {good + " --micro-batch -2", {"--micro-batch", "-2"}},
      {good + " --seq-len -1024", {"--seq-len", "-1024"}},
      {good + " --seq-len 99999999999999999999", {"--seq-len"}},
      {good + " --nic-gbps nan", {"--nic-gbps"}},
      {good + " --oversubscription 0.5", {"--oversubscription", "0.5"}},
      {good + " --bucket-cap-mb 0", {"--bucket-cap-mb", "0"}},
      {good + " --gradient-as-bucket-view maybe", {"--gradient-as-bucket-view", "true, false"}},
      {good + " --checkpointing some", {"--checkpointing", "none, selective, full"}},
      {good + " --precision bf17", {"bf17"}},
      {good + " --profile pytorch-eagre", {"profile", "did you mean 'pytorch-eager'"}},
      {good + " --perturb rank=8:missing", {"--perturb", "rank=8:missing", "ranks 0 to 7"}},
      {good + " --perturb rank=1:slow=2", {"--perturb", "0.001 to 1"}},
      {good + " --perturb rank=1:late=5", {"--perturb", "with its unit"}},
      {good + " --perturb ''", {"--perturb"}},
      {good + " --perturb rank=1:missing --trace t.json", {"--trace", "never ends"}},
      {good + " --nccl-timeout 60", {"--nccl-timeout", "perturb only"}},
      {good + " --loader-workers 4", {"--loader-workers", "loader_sample_ms or storage_gbps"}},
      {good + " --loader-sample-ms 1 --loader-prefetch 4", {"--loader-prefetch", "loader_workers"}},
      {good + " --engine packet", {"--engine", "fluid, formula"}},
      {good + " --nccl-version 1.0", {"--nccl-version", "2.28.9"}},
      {good + " --gpus 9 --nodes 1", {"9"}},
      {good + " --seq-len 2048", {"2048"}},  // gpt2 has 1,024 learned positions
      {good + " one two", {"two"}},
      {"simulate --cluster dgx-h100 --strategy ddp", {"--model"}},
      {"simulate --model gpt2 --strategy ddp", {"--cluster"}},
      {"simulate --model gpt2 --cluster dgx-h100", {"--strategy", "fsdp2"}},
      {"simulate --model gpt5 --cluster dgx-h100 --strategy ddp", {"--model", "gpt5", "gpt2"}},
      {"simulate --model gpt2 --cluster dgx-h101 --strategy ddp",
       {"--cluster", "did you mean 'dgx-h100'"}},
      {"simulate --model gpt2 --cluster dgx-h100 --strategy hsdp --gpus 12 --shard-group 8",
       {"--shard-group", "8 does not divide the 12 GPUs", "1, 2, 3, 4, 6, 12"}},
      {good + " --sharding-strategy FULL_SHARD", {"--sharding-strategy", "fsdp1 only"}},
      {good + " --wrap block", {"--wrap", "fsdp2, hsdp only"}},
      {"simulate --model gpt2 --cluster rtx-3090-2x --nodes 2 --strategy ddp", {"NIC"}},
      {"simulate --params -7 --gpus 8", {"--params", "-7"}},
      {"simulate --params 7e9 --model gpt2 --gpus 8", {"--params"}},
      {"simulate --params 7e9 --gpus 8 --gpu h100-xsm", {"h100-xsm"}},
      {"simulate --params 7e9 --gpus 8 --trace /tmp/x.json", {"--trace", "needs a model"}},
      {"simulate /nonexistent/s.toml", {"/nonexistent/s.toml"}},
      {"simulate --model /nonexistent/config.json --cluster dgx-h100 --strategy ddp",
       {"/nonexistent/config.json"}},
      {good + " --trace /nonexistent/dir/t.json", {"/nonexistent/dir/t.json"}},
      {"help simulte", {"command: 'simulte'", "did you mean 'simulate'"}},
      {"help topo imprt", {"command: 'imprt'", "did you mean 'import'"}},
      {"help simulate now", {"'now' is too much", "simulate has no commands"}},
      {"emit", {"emit: format is required", "deepspeed, accelerate or torchtitan"}},
      {"emit deepsped --model gpt2", {"format", "did you mean 'deepspeed'"}},
      {"emit torchtitan --model gpt2 --strategy zero2",
       {"--strategy: torchtitan does not run zero2; accepted: fsdp2"}},
      {"simulte", {"simulte", "did you mean 'simulate'"}},
      {"list modles", {"modles", "did you mean 'models'"}},
      {"list", {"list: what is required", "accepted: models, gpus, machines", "list --help"}},
      {"import", {"import: ", "accepted: model, job", "import --help"}},
      {"import model", {"import model: file is required", "a config.json"}},
      {"show model", {"name"}},
      {"show model gpt9", {"gpt9"}},
      {"show machin dgx-h100", {"machin", "did you mean 'machine'"}},
      {"--frobnicate", {"--frobnicate"}},
  };
  for (const Row& row : rows) check_refused(row);
}

TEST_CASE("an empty value is refused with what the option takes, not with its help") {
  std::size_t options = 0;
  for (const char* command : {"collectives", "nccl predict", "calibrate"}) {
    std::stringstream help(run(std::string(command) + " --help").out);
    for (std::string line; std::getline(help, line);) {
      // "  --bytes SIZE            size: the tensor", "  -o,--output FILE ..."
      std::smatch m;
      if (!std::regex_match(line, m, std::regex("  (?:-.,)?(--\\S+) ([A-Z]\\S*)(?: +(\\S.*))?"))) {
        continue;
      }
      ++options;
      const Output o = run(std::string(command) + " " + m[1].str() + " ''");
      CAPTURE(line);
      CAPTURE(o.err);
      CHECK(o.code == 2);
      CHECK(o.err.starts_with("stepcast: " + m[1].str() + ": '' is not accepted; accepted: "));
      CHECK(count_lines(o.err) == 1);
      const std::string words = m[3].str();
      CHECK((words.empty() || o.err.find(words) == std::string::npos));
    }
  }
  CHECK(options > 40);
  check_refused({good + " --channels-last ''",
                 {"--channels-last: '' is not accepted; accepted: true, false"}});
  check_refused({"collectives --ranks 8 --bytes ''", {"accepted: bytes, as 4096, 25M, 1GiB"}});
  check_refused({good + " --engine ''", {"accepted: fluid, formula, messages"}});
}

TEST_CASE("integers may be written as DeepSpeed's files do: 5e8, as a flag and in TOML") {
  const std::string zero = "simulate --model gpt2 --cluster dgx-h100 --strategy zero2 --schedule";
  const Output digits = run(zero + " --reduce-bucket-size 50000000");
  REQUIRE(digits.code == 0);
  const Output flag = run(zero + " --reduce-bucket-size 5e7");
  CHECK(flag.err == "");
  CHECK(flag.out == digits.out);
  const TemporaryFile file(".toml",
                           "model = \"gpt2\"\ncluster = \"dgx-h100\"\nstrategy = "
                           "\"zero2\"\nreduce_bucket_size = 5e7\n");
  CHECK(run("simulate --schedule " + file.path()).out == digits.out);
}

TEST_CASE("wrong files are refused with file, line and key") {
  const std::string head = "model = \"gpt2\"\ncluster = \"dgx-h100\"\nstrategy = \"ddp\"\n";
  struct File {
    std::string suffix, text;
    std::vector<std::string> parts;
  };
  const File scenarios[] = {
      {".toml", head + "micro_bacth = 2\n", {":4", "micro_bacth", "micro_batch"}},
      {".toml", head + "nodes = -1\n", {":4", "nodes", "-1"}},
      {".toml", head + "seq_len = \"long\"\n", {":4", "seq_len"}},
      {".toml", head + "seq_len = 1024.5\n", {":4", "seq_len", "1024.5", "integer"}},
      {".toml", head + "seq_len = 1e16\n", {":4", "seq_len", "2^53"}},
      {".toml", head + "[cluster2]\n", {"cluster2"}},
      {".toml", "model = \"gpt2\ncluster", {":1"}},
      {".toml", head.substr(0, 20), {":2"}},
      {".toml", std::string("\x00\x01\x02", 3), {":1"}},
  };
  for (const File& file : scenarios) {
    const TemporaryFile scenario(file.suffix, file.text);
    Row row{"simulate " + scenario.path(), file.parts};
    row.parts.push_back(scenario.path());
    check_refused(row);
  }
  const File configs[] = {
      {".json", "{\"model_type\": \"llama\"", {}},  // cut off
      {".json", "{\"model_type\": \"llama\", \"hidden_size\": 4096}", {}},
      {".json", "{\"model_type\": \"llama\", \"hidden_size\": -4096}", {"hidden_size"}},
      {".json", "{}", {"model_type"}},
      {".json", "[]", {}},
      {".json", "", {}},
  };
  for (const File& file : configs) {
    const TemporaryFile config(file.suffix, file.text);
    Row row{"simulate --cluster dgx-h100 --strategy ddp --model " + config.path(), file.parts};
    row.parts.push_back(config.path());
    check_refused(row);
  }
}

TEST_CASE("no output is written over a file that the same command reads, nor over another output") {
  const std::string text = read("examples/gpt2-ddp-8-gpus.toml");
  const TemporaryFile scenario(".toml", text);
  const std::string& path = scenario.path();
  const std::string other =
      (std::filesystem::temp_directory_path() / "." / std::filesystem::path(path).filename())
          .string();  // the same file under another name
  for (const std::string output : {"--report", "--trace", "--picture", "--memory-snapshot"}) {
    check_refused({"simulate " + path + " " + output + " " + path, {output, "read as scenario"}});
  }
  check_refused({"explain " + path + " --report " + other, {"--report", "read as scenario"}});
  check_refused({"tune " + path + " -o " + path, {"--output", "read as scenario"}});
  check_refused({"results " + path + " --report " + path, {"--report", "read as database"}});
  check_refused({good + " --picture there.svg --report ./there.svg", {"there.svg", "by --"}});
  CHECK(read(path) == text);
}

TEST_CASE("a number in a trace that is too large is told without the names of a library") {
  const TemporaryFile trace(".json", "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": 1e400}]}");
  check_refused({"trace summary " + trace.path(), {trace.path(), "number overflow", "1e400"}});
  CHECK(run("trace summary " + trace.path()).err.find("json.exception") == std::string::npos);
}
