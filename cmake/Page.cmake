# cmake -DSOURCE=.. -DMODULES=.. -DINSTALLED=.. -DWORK=.. -DOUT=.. -P Page.cmake
# Bundles page/ with Vite into one HTML file, or writes an empty one where that cannot be done.
function(off why)
  message(STATUS "HTML is off: ${why}")
  file(WRITE ${OUT} "")
endfunction()

file(STRINGS ${INSTALLED} state LIMIT_COUNT 1)
find_program(NODE node)
if(state STREQUAL "none" OR NOT EXISTS ${MODULES}/vite/bin/vite.js)
  off("no npm packages in build/page (./dev installs them)")
elseif(NOT NODE)
  off("node is not found")
else()
  # Vite looks for packages beside the sources; nothing is written into the source tree.
  file(REMOVE_RECURSE ${WORK})
  file(MAKE_DIRECTORY ${WORK})
  file(COPY ${SOURCE}/src ${SOURCE}/index.html ${SOURCE}/vite.config.ts ${SOURCE}/tsconfig.json
            ${SOURCE}/package.json DESTINATION ${WORK})
  file(CREATE_LINK ${MODULES} ${WORK}/node_modules SYMBOLIC)
  execute_process(
    COMMAND ${NODE} node_modules/vite/bin/vite.js build --logLevel warn
    WORKING_DIRECTORY ${WORK}
    RESULT_VARIABLE failed
    OUTPUT_VARIABLE said
    ERROR_VARIABLE said)
  if(failed OR NOT EXISTS ${WORK}/dist/index.html)
    message(FATAL_ERROR "the report page could not be bundled:\n${said}")
  endif()
  file(COPY_FILE ${WORK}/dist/index.html ${OUT})
endif()
