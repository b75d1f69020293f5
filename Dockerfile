# An image for training in the cloud or on a machine of one's own:
#   docker build -t yt8m .                                  with CUDA, for GPUs
#   docker build -t yt8m --build-arg EXTRA= .               without, half the size
#   docker run --gpus all -v "$PWD:/work" yt8m train --train_dir=runs/first
FROM python:3.12-slim

# The NVIDIA driver is the host's; CUDA comes with TensorFlow's wheels.
ARG EXTRA=gpu

WORKDIR /opt/yt8m
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY yt8m ./yt8m
RUN pip install --no-cache-dir --constraint constraints.txt ".${EXTRA:+[$EXTRA]}"

WORKDIR /work
ENTRYPOINT ["yt8m"]
