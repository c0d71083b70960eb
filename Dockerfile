# raxalign in a container: the base with PyTorch's build for the CPU, or, for the pods of cluster/rayjob.yaml, what cluster.yaml installs.
#
#   docker build -t raxalign .
#   docker run --rm -v "$PWD:/home/ray/grids" raxalign sh -c 'raxalign init quickstart && raxalign grid quickstart.yaml'
#   docker build -t REGISTRY/raxalign:TAG --build-arg FOR=cluster .
FROM python:3.12 AS build
ARG FOR=cpu
RUN pip install --quiet --no-cache-dir uv && uv venv --quiet /opt/raxalign
COPY . /src
WORKDIR /src
RUN if [ "$FOR" = cluster ]; then \
      uv pip install --quiet --no-cache --python /opt/raxalign --require-hashes --requirement cluster/requirements.lock && \
      uv pip install --quiet --no-cache --python /opt/raxalign --no-deps --no-build-isolation . ; \
    else \
      uv pip install --quiet --no-cache --python /opt/raxalign --torch-backend cpu --constraint constraints.txt . ; \
    fi

# The compiler and the sources stay behind. KubeRay asks pods for their health with wget.
FROM python:3.12-slim
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends wget && rm -rf /var/lib/apt/lists/* && useradd --create-home ray
COPY --from=build /opt/raxalign /opt/raxalign
ENV PATH=/opt/raxalign/bin:$PATH
USER ray
WORKDIR /home/ray/grids
CMD ["raxalign", "--help"]
