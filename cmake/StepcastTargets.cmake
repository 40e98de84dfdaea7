# Four verbs that every folder uses; nothing else in the tree calls add_library or add_executable.
include(cmake/StepcastPrecompiled.cmake)
include(cmake/StepcastTogether.cmake)

# stepcast_library(NAME SOURCES a.cpp ... [APART b.cpp ...] [PUBLIC libs ...] [PRIVATE libs ...]
#                  [EMBED files ...])
# One static library a folder, alias stepcast::NAME. APART are those of SOURCES that are compiled one by
# one also where others are not (StepcastTogether.cmake). EMBED compiles text files into the library;
# read them with stepcast::embedded::NAME() (base/embedded.hpp).
function(stepcast_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;PUBLIC;PRIVATE;EMBED" ${ARGN})
  add_library(stepcast_${name} STATIC ${ARG_SOURCES})
  add_library(stepcast::${name} ALIAS stepcast_${name})
  set_target_properties(stepcast_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(stepcast_${name} PUBLIC cxx_std_20)
  target_include_directories(
    stepcast_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/stepcast>)
  target_link_libraries(
    stepcast_${name}
    PUBLIC ${ARG_PUBLIC}
    PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:stepcast_warnings>)
  stepcast_precompiled(stepcast_${name} headers)
  stepcast_together(stepcast_${name} "${ARG_APART}")
  if(ARG_EMBED)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
    set(list ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.list)
    list(JOIN ARG_EMBED "\n" lines)
    file(GENERATE OUTPUT ${list} CONTENT "${lines}\n")
    add_custom_command(
      OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DLIST=${list} -DOUT=${out}
              -DBASE=${CMAKE_CURRENT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      DEPENDS ${ARG_EMBED} ${list} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
      VERBATIM)
    target_sources(stepcast_${name} PRIVATE ${out})
  endif()
  set_property(GLOBAL APPEND PROPERTY STEPCAST_LIBRARIES stepcast_${name})
endfunction()

# stepcast_test(NAME [LABELS l ...] SOURCES a.cpp ... [APART b.cpp ...] LINKS libs ...)
# A doctest executable test_NAME; every test case is a CTest entry and a process of its own.
function(stepcast_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;LINKS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT TARGET stepcast_doctest_main)
    add_library(stepcast_doctest_main OBJECT ${PROJECT_SOURCE_DIR}/tests/doctest_main.cpp)
    target_link_libraries(stepcast_doctest_main PRIVATE doctest::doctest)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_compile_features(test_${name} PRIVATE cxx_std_20)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${name} PRIVATE ${ARG_LINKS} doctest::doctest
                                             stepcast_doctest_main stepcast_warnings)
  stepcast_precompiled(test_${name} test_headers)
  stepcast_together(test_${name} "${ARG_APART}")
  target_compile_options(test_${name} PRIVATE ${STEPCAST_TEST_OPTIONS})
  # Only the sources that name a folder are told it: the objects of all others are the same in every
  # checkout, so a compiler cache can share them. (A source that newly does: configure again.)
  foreach(source IN LISTS ARG_SOURCES)
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      continue() # generated
    endif()
    file(STRINGS ${source} uses REGEX "STEPCAST_(TEST_DATA|SOURCE_DIR)" LIMIT_COUNT 1)
    if(uses)
      set_property(
        SOURCE ${source}
        APPEND
        PROPERTY COMPILE_DEFINITIONS STEPCAST_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}"
                 STEPCAST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    endif()
  endforeach()
  # A name with a semicolon would become two names, of which none is a test: no test run is a failure.
  doctest_discover_tests(test_${name} TEST_PREFIX "${name}." PROPERTIES LABELS "${ARG_LABELS}"
                         TIMEOUT 120 FAIL_REGULAR_EXPRESSION "test cases:[ ]+0[ ]")
endfunction()

# stepcast_plugin(NAME SOURCES a.cpp b.cu ... LINKS libs ... INCLUDES folders ...)
# libstepcast_NAME.so, opened at run time beside the program: lib/stepcast. It is not linked to the
# libraries of the tree (they are not position-independent): what it shares is compiled again.
# INCLUDES are other people's headers. nvcc gets none of g++'s warnings, and C++17.
function(stepcast_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;INCLUDES" ${ARGN})
  add_library(stepcast_${name} MODULE ${ARG_SOURCES})
  target_include_directories(stepcast_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(stepcast_${name} SYSTEM PRIVATE ${ARG_INCLUDES})
  target_link_libraries(stepcast_${name} PRIVATE ${ARG_LINKS})
  target_link_options(stepcast_${name} PRIVATE LINKER:-z,defs) # all symbols are found at build time
  set(warnings $<TARGET_PROPERTY:stepcast_warnings,INTERFACE_COMPILE_OPTIONS>)
  target_compile_options(stepcast_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${warnings}>)
  set_target_properties(
    stepcast_${name} PROPERTIES CXX_STANDARD 20 CUDA_STANDARD 17 LIBRARY_OUTPUT_DIRECTORY
                                                                 ${PROJECT_BINARY_DIR}/lib/stepcast)
endfunction()

# stepcast_program(NAME SOURCES a.cpp ... LINKS libs ... [PRECOMPILED a set of cmake/precompiled
#                  PLAIN b.cpp ...])
# PLAIN are the sources that begin with the usual headers in place of that set: a larger set costs each
# source that is compiled with it.
function(stepcast_program name)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "SOURCES;PLAIN;LINKS" ${ARGN})
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED headers)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set(parts ${name})
  if(ARG_PLAIN)
    add_library(${name}_plain OBJECT ${ARG_PLAIN})
    target_link_libraries(${name} PRIVATE ${name}_plain)
    stepcast_precompiled(${name}_plain headers)
    list(APPEND parts ${name}_plain)
  endif()
  foreach(part IN LISTS parts)
    target_compile_features(${part} PRIVATE cxx_std_20)
    target_include_directories(${part} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${part} PRIVATE ${ARG_LINKS} stepcast_warnings)
  endforeach()
  target_link_options(${name} PRIVATE LINKER:--build-id=sha1) # what build_version() names it by
  stepcast_precompiled(${name} ${ARG_PRECOMPILED})
  if(ARG_PLAIN)
    stepcast_together(${name}_plain "")
  endif()
endfunction()
