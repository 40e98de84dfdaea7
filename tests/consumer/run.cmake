# Installs the build tree into a prefix of its own, then configures, builds and runs the consumer
# against that prefix and nothing else.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(code)
    message(FATAL_ERROR "failed (${code}): ${ARGV}\n${said}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} --install ${STEPCAST_BUILD} --prefix ${prefix})

# What is installed must not lean on the place it was built in.
file(GLOB_RECURSE exported ${prefix}/*.cmake)
if(NOT exported)
  message(FATAL_ERROR "no CMake package was installed")
endif()
foreach(file IN LISTS exported)
  file(READ ${file} text)
  foreach(place IN ITEMS ${STEPCAST_SOURCE} ${STEPCAST_BUILD})
    string(FIND "${text}" "${place}/" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} names ${place}")
    endif()
  endforeach()
endforeach()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -G Ninja
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
if(NOT said STREQUAL "all-reduce of 1000 MB on 8 ranks: 1750 MB sent by each\n")
  message(FATAL_ERROR "the consumer said: ${said}")
endif()
