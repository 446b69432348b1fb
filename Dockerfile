# sfumato for the command line: CPU by default, a GPU with --build-arg TORCH=cuda.
#   docker build -t sfumato .
#   docker build -t sfumato:cuda --build-arg TORCH=cuda .
#   docker run --rm -v "$PWD:/data" sfumato protect /data/in.mp4 /data/out.mp4
# For Linux the package index has torch with CUDA only. The CPU build of the same version is named by
# a wheel folder or index of yours: --build-arg TORCH_CPU="--index-url URL" (pytorch.org says which).
ARG PYTHON=3.13
FROM python:${PYTHON}-slim AS build
ARG TORCH=cpu
ARG TORCH_CPU=""
ARG EXTRAS=all,postgres,ray
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/sfumato
# torch first, so that nothing after it brings another build
RUN if [ "$TORCH" = cpu ] && [ -n "$TORCH_CPU" ]; then \
      /opt/sfumato/bin/pip install --constraint constraints.txt $TORCH_CPU torch; \
    else \
      /opt/sfumato/bin/pip install --constraint constraints.txt torch; \
    fi
RUN /opt/sfumato/bin/pip install --constraint constraints.txt ".[${EXTRAS}]"
RUN /opt/sfumato/bin/sfumato --help > /dev/null

FROM python:${PYTHON}-slim
# nobody who protects recordings needs to be root
RUN useradd --create-home --uid 1000 sfumato
COPY --from=build /opt/sfumato /opt/sfumato
ENV PATH=/opt/sfumato/bin:$PATH RAY_USAGE_STATS_ENABLED=0
USER sfumato
WORKDIR /data
ENTRYPOINT ["sfumato"]
CMD ["--help"]
