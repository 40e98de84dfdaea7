# Other people's headers (the standard library, Boost.Graph, fmt, doctest, CLI11), parsed once for all
# libraries, once for all tests and once for the program: half of the time of a first build went into reading them again.
# JSON's header stays out: few sources need it, and a larger file costs every source more to open.
# Sources still include what they use: the preset asan builds without, and ./dev lint reads without.
#
# stepcast_precompiled(TARGET headers|test_headers|program_headers): TARGET begins with the file of
# that name in cmake/precompiled/.
function(stepcast_precompiled target headers)
  if(NOT STEPCAST_PRECOMPILED)
    return()
  endif()
  set(owner stepcast_precompiled_${headers})
  if(NOT TARGET ${owner})
    set(empty ${PROJECT_BINARY_DIR}/${owner}.cpp)
    file(CONFIGURE OUTPUT ${empty} CONTENT "// Holds nothing but precompiled headers.\n")
    add_library(${owner} OBJECT ${empty})
    target_compile_features(${owner} PRIVATE cxx_std_20)
    target_link_libraries(${owner} PRIVATE stepcast_warnings)
    target_compile_definitions(${owner} PRIVATE ${STEPCAST_PRECOMPILED_DEFINITIONS})
    if(headers STREQUAL test_headers)
      target_compile_options(${owner} PRIVATE ${STEPCAST_TEST_OPTIONS})
    endif()
    target_include_directories(${owner} PRIVATE ${PROJECT_SOURCE_DIR})
    # In brackets: a path of this checkout in the generated file would keep compiler caches from
    # sharing objects between checkouts.
    target_precompile_headers(${owner} PRIVATE <cmake/precompiled/${headers}.hpp>)
  endif()
  # A macro that the headers ask for has to be the same everywhere.
  target_compile_definitions(${target} PRIVATE ${STEPCAST_PRECOMPILED_DEFINITIONS})
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# Tests are not optimized, what they test is: g++ takes 2.6 s in place of 4.6 s for one of their sources,
# of which there are some 300.
set(STEPCAST_TEST_OPTIONS $<$<CXX_COMPILER_ID:GNU,Clang>:-O0>)

set(STEPCAST_PRECOMPILED_DEFINITIONS
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>
    $<TARGET_PROPERTY:Boost::headers,INTERFACE_COMPILE_DEFINITIONS>)
