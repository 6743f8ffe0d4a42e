# SPDX-License-Identifier: MIT
#
# llama.cpp's own tests and tools, from the sources in the npm package node-llama-cpp, linked
# against the libraries that the package @node-llama-cpp/linux-x64-cuda distributes: of llama.cpp's
# libraries only what no package has (mtmd and server, for llama-server) is compiled here. Called by llama.sh.
#
#   O=<build>/llama  NPM=<build>/npm  PROGRAMS="..."
#
# $(O)/bin has the programs and links to the libraries: ggml looks for its backends beside the program.

LIBS := $(NPM)/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda
BUNDLE := $(NPM)/node_modules/node-llama-cpp/llama/gitRelease.bundle
SRC := $(O)/src
BIN := $(O)/bin
OBJ := $(O)/obj
CXX ?= g++
CC ?= gcc

# The definitions are those that the distributed libraries were built with where they show in headers.
FLAGS := -O2 -fPIC -w -DNDEBUG -DGGML_SHARED -DGGML_BACKEND_SHARED -DLLAMA_SHARED -DLLAMA_SUBPROCESS -D_GNU_SOURCE \
	$(addprefix -I$(SRC)/,include ggml/include ggml/src src common vendor vendor/hash tools/mtmd tools/server .) -I$(O)/ui
CXXFLAGS := -std=c++17 $(FLAGS)
# -O0: two thirds of the time for parts where no time is spent: models' image and sound parts, HTTP routes.
MTMD_FLAGS := $(CXXFLAGS) -O0
LINK = @echo "linking $(@F)"; $(CXX) -o $@ $^ -L$(BIN) -lllama-common $(addprefix -l:,$(notdir $(wildcard $(LIBS)/libllama.cuda.*.so) \
	$(wildcard $(LIBS)/libggml.cuda.*.so))) -lggml-base -Wl,-rpath,'$$ORIGIN' -lpthread -ldl

all: $(addprefix $(BIN)/,$(PROGRAMS))

# Everything below needs the sources; their file lists are read once they are there (see sources).
.PHONY: all sources
sources: $(SRC)/.cloned $(BIN)/.linked
$(SRC)/.cloned: $(BUNDLE)
	rm -rf $(SRC)
	git -c advice.detachedHead=false clone -q $(BUNDLE) $(SRC)
	touch $@
$(BIN)/.linked: $(LIBS)/libggml-cuda.so
	mkdir -p $(BIN)
	cd $(BIN) && ln -sf $(shell realpath --relative-to=$(BIN) $(LIBS) 2> /dev/null || echo $(LIBS))/*.so .
	touch $@

# The server's page for browsers is left out: its generated file without contents.
$(O)/ui/ui.h: $(SRC)/tools/ui/ui.h.in
	mkdir -p $(@D)
	sed -e '/^#cmakedefine/d' -e 's/@N_ASSETS@/0/' $< > $@
$(O)/ui/ui.cpp: $(SRC)/tools/ui/ui.cpp.in $(O)/ui/ui.h
	sed -e 's/@N_ASSETS@/0/' -e 's/@USE_GZIP@/false/' -e 's/@ASSET_[A-Z]*@//' $< > $@

objects = $(patsubst $(SRC)/%,$(OBJ)/%.o,$(1))
MTMD := $(wildcard $(SRC)/tools/mtmd/mtmd*.cpp $(SRC)/tools/mtmd/clip.cpp $(SRC)/tools/mtmd/models/*.cpp)
MTMD := $(filter-out %-cli.cpp,$(MTMD)) $(addprefix $(SRC)/vendor/hash/,hash.cpp sha256/sha256.c xxhash/xxhash.c)
SERVER := $(filter-out %/main.cpp,$(wildcard $(SRC)/tools/server/*.cpp))
CLI := $(filter-out %/main.cpp,$(wildcard $(SRC)/tools/cli/*.cpp))

$(OBJ)/tools/mtmd/%.cpp.o: $(SRC)/tools/mtmd/%.cpp
	@mkdir -p $(@D)
	@echo "compiling $(<:$(SRC)/%=%)"
	@$(CXX) $(MTMD_FLAGS) -c -o $@ $<
$(OBJ)/%.cpp.o: $(SRC)/%.cpp
	@mkdir -p $(@D)
	@echo "compiling $(<:$(SRC)/%=%)"
	@$(CXX) $(CXXFLAGS) -c -o $@ $<
$(OBJ)/%.c.o: $(SRC)/%.c
	@mkdir -p $(@D)
	@$(CC) -O2 -fPIC -I$(SRC)/vendor/hash -c -o $@ $<
$(OBJ)/ui.cpp.o: $(O)/ui/ui.cpp
	@mkdir -p $(@D)
	@echo "compiling $(<:$(SRC)/%=%)"
	@$(CXX) $(CXXFLAGS) -c -o $@ $<
$(call objects,$(SERVER)): $(O)/ui/ui.h

# The distributed libllama has a patch of its distributor in the model loader, with which this test's
# models without files do not load: the program brings the loader of the sources, which comes first.
$(BIN)/test-llama-archs: $(call objects,$(SRC)/tests/test-llama-archs.cpp $(SRC)/src/llama-model-loader.cpp)
	$(LINK)
# One source: the other tests and llama-simple; main and the part that other programs share: the rest.
$(BIN)/test-%: $(OBJ)/tests/test-%.cpp.o
	$(LINK)
$(BIN)/llama-simple: $(OBJ)/examples/simple/simple.cpp.o
	$(LINK)
$(BIN)/llama-bench: $(call objects,$(SRC)/tools/llama-bench/main.cpp $(SRC)/tools/llama-bench/llama-bench.cpp)
	$(LINK)
$(BIN)/llama-completion: $(call objects,$(SRC)/tools/completion/main.cpp $(SRC)/tools/completion/completion.cpp)
	$(LINK)
$(BIN)/llama-server: $(call objects,$(SRC)/tools/server/main.cpp $(SERVER) $(MTMD)) $(OBJ)/ui.cpp.o
	$(LINK)
$(BIN)/llama-cli: $(call objects,$(SRC)/tools/cli/main.cpp $(CLI) $(SERVER) $(MTMD)) $(OBJ)/ui.cpp.o
	$(LINK)
