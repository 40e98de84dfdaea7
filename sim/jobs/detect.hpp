#pragma once
// Which framework a file is of, by what stands in it and never by its name, and the file read.
//
//   Job job = read_job("config_whatever.txt");   // to_string(job.kind): "DeepSpeed's
//   configuration"
//
// Each kind has keys that no other has: distributed_type is accelerate's, zero_optimization
// DeepSpeed's, per_device_train_batch_size the Trainer's. A stepcast scenario and files of no known
// kind are refused with the kinds that are. A Hugging Face config.json is taken too, as the model.
//
// Throws InputError. Tested by tests/unit/jobs/detect_test.cpp.

#include <string>
#include <vector>

#include "sim/jobs/job.hpp"

namespace stepcast::jobs {

Job read_job(const std::string& path);
Job parse_job(const std::string& text, const std::string& file);

// Several files that say one step together. A DeepSpeed file that one of them names is read with
// them where it can be found: from the working folder, or from the folder of the file that names
// it.
std::vector<Job> read_jobs(const std::vector<std::string>& paths);

}  // namespace stepcast::jobs
