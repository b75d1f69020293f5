# An image for training in the cloud or on a machine of one's own:
#   docker build -t yt8m .                                  with CUDA, for GPUs
#   docker build -t yt8m --build-arg EXTRA= .               without, half the size
#   docker run --gpus all -v "$PWD:/work" yt8m train --train_dir=runs/first
# and one for the workers of `yt8m bulk` on Dataflow (--sdk_container_image), started by Apache Beam's own program:
#   docker build -t yt8m-beam --target=beam --build-arg EXTRA=dataflow .
FROM apache/beam_python3.12_sdk:2.77.0 AS beam-sdk

FROM python:3.12-slim AS installed

# The NVIDIA driver is the host's; CUDA comes with TensorFlow's wheels.
ARG EXTRA=gpu

WORKDIR /opt/yt8m
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY yt8m ./yt8m
RUN pip install --no-cache-dir --constraint constraints.txt ".${EXTRA:+[$EXTRA]}"

WORKDIR /work

FROM installed AS beam
COPY --from=beam-sdk /opt/apache/beam /opt/apache/beam
ENTRYPOINT ["/opt/apache/beam/boot"]

FROM installed
ENTRYPOINT ["yt8m"]
