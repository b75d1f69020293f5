"""`yt8m.fit`, with type, default and meaning of each option. `make fit-stub` writes this file."""

import os
from collections.abc import Sequence
from typing import Any

from yt8m.python_api.fitting import FittedRun

def fit(
    *,
    train_dir: str | os.PathLike[str] | None = None,
    callbacks: Sequence[str] | str | None = None,
    init_from: str | os.PathLike[str] | None = None,
    rename: str | os.PathLike[str] | None = None,
    train_only: str | None = None,
    export_dir: str | os.PathLike[str] | None = None,
    log_dir: str | os.PathLike[str] | None = None,
    max_steps: int | None = None,
    log_every_n_steps: int | None = 10,
    save_summary_steps: int | None = 100,
    seed: int | None = 0,
    train_data_pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    feature_names: Sequence[str] | str | None = ("mean_rgb", "mean_audio"),
    feature_sizes: Sequence[int] | int | str | None = (1024, 128),
    frame_features: bool | None = False,
    segment_labels: bool | None = False,
    num_classes: int | None = 3862,
    vocabulary: str | os.PathLike[str] | None = None,
    max_frames: int | None = 300,
    batch_size: int | None = 1024,
    num_readers: int | None = 8,
    parse_threads: int | None = None,
    prefetch: int | None = None,
    num_epochs: int | None = 5,
    reader: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    manifest: str | os.PathLike[str] | None = None,
    max_bad_records: int | None = 0,
    nan_policy: str | None = "refuse",
    shuffle_buffer: int | None = None,
    balance: float | None = 0.0,
    film_mean: bool | None = False,
    segment_context: int | None = 0,
    model: str | type[Any] | None = "LogisticModel",
    label_loss: str | None = "CrossEntropyLoss",
    class_weights: str | os.PathLike[str] | None = None,
    optimizer: str | None = "AdamOptimizer",
    base_learning_rate: float | None = 0.01,
    learning_rate_schedule: str | None = "exponential",
    learning_rate_decay: float | None = 0.95,
    learning_rate_decay_examples: float | None = 4000000,
    learning_rate_warmup_examples: float | None = 0,
    weight_decay: float | None = None,
    clip_gradient_norm: float | None = 1.0,
    clip_by: str | None = "variable",
    accumulate_steps: int | None = 1,
    regularization_penalty: float | None = 1.0,
    combine_gradients: str | None = "mean",
    moving_average_decay: float | None = 0.0,
    num_gpu: int | None = 1,
    precision: str | None = "float32",
    sync_batch_norm: bool | None = False,
    prefetch_to_device: bool | None = False,
    xla: bool | None = False,
    log_device_placement: bool | None = False,
    profile: Sequence[int] | int | str | None = None,
    save_checkpoint_steps: int | None = None,
    save_checkpoint_minutes: float | None = 15.0,
    keep_checkpoints: int | str | None = 5,
    exact_resume: bool | None = False,
    export_model_steps: int | str | None = 1000,
    start_new_model: bool | None = False,
    sync_replicas: bool | None = False,
    exchange: str | None = "parameter-servers",
    exchange_dtype: str | None = "float32",
    check_replicas_steps: int | None = 1000,
    stall_timeout: float | None = 600.0,
    distill_from: str | os.PathLike[str] | None = None,
    teacher: str | os.PathLike[str] | None = None,
    distill_weight: float | None = 0.5,
    augment_crop: float | None = 1.0,
    augment_frame_dropout: float | None = 0.0,
    augment_noise: float | None = 0.0,
    mixup: float | None = 0.0,
    eval_data_pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    eval_every_n_epochs: int | None = None,
    eval_every_n_steps: int | None = None,
    eval_max_videos: int | None = None,
    best_metric: str | None = "GAP",
    patience: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    stage_cache_bytes: int | None = 21474836480,
    gs_reading: str | None = "staged",
    gs_retry_seconds: float | None = 300.0,
    budget: float | None = None,
    refit: bool | None = True,
    config: str | os.PathLike[str] | None = None,
    trust_code: bool | None = False,
    video_level_classifier_model: str | None = None,
    hidden_sizes: Sequence[int] | int | str | None = None,
    drop_rate: float | None = None,
    iterations: int | None = None,
    sample_random_frames: bool | None = None,
    attention_cluster_size: int | None = None,
    input_transform: str | None = None,
    lstm_cells: int | None = None,
    lstm_layers: int | None = None,
    embedding_size: int | None = None,
    attention_queries: int | None = None,
    attention_size: int | None = None,
    decoder_queries: int | None = None,
    decoder_learns_queries: bool | None = None,
    decoder_videos_at_once: int | None = None,
    probe_size: int | None = None,
    probe_heads: int | None = None,
    l2_penalty: float | None = None,
    decoder_feed_forward: int | None = None,
    sequence_frames: int | None = None,
    all_layers: bool | None = None,
    lstm_memory: bool | None = None,
    lstm_random_sequence: bool | None = None,
    lstm_kernel: str | None = None,
    batch_norm_decay: float | None = None,
    dbof_add_batch_norm: bool | None = None,
    dbof_cluster_size: int | None = None,
    dbof_hidden_size: int | None = None,
    dbof_pooling_method: str | None = None,
    dbof_activation: str | None = None,
    deep_chain_layers: int | None = None,
    deep_chain_relu_cells: int | None = None,
    support_loss_percent: float | None = None,
    moe_num_mixtures: int | None = None,
    gating: bool | None = None,
    gating_remove_diag: bool | None = None,
    input_batch_norm: bool | None = None,
    dbof_relu: bool | None = None,
    dbof_late_fusion: bool | None = None,
    softdbof_maxpool: bool | None = None,
    mlp_hidden_size: int | None = None,
    mlp_layers: int | None = None,
    input_limit: float | None = None,
    moe_low_rank_gating: int | None = None,
    moe_prob_gating: bool | None = None,
    moe_prob_gating_input: str | None = None,
    prob_gating_rank: int | None = None,
    gru_cells: int | None = None,
    gru_layers: int | None = None,
    gru_random_sequence: bool | None = None,
    l2_biases: bool | None = None,
    lstm_attentions: int | None = None,
    attention_on_input: bool | None = None,
    nextvlad_cluster_size: int | None = None,
    nextvlad_hidden_size: int | None = None,
    groups: int | None = None,
    expansion: int | None = None,
    gating_reduction: int | None = None,
    as_published: bool | None = None,
    mix_number: int | None = None,
    cl_temperature: float | None = None,
    cl_lambda: float | None = None,
    cl_both_sides: bool | None = None,
    fv_cluster_size: int | None = None,
    fv_hidden_size: int | None = None,
    fv_add_batch_norm: bool | None = None,
    fv_relu: bool | None = None,
    fv_variances_as_whole: bool | None = None,
    netvlad_cluster_size: int | None = None,
    netvlad_hidden_size: int | None = None,
    netvlad_add_batch_norm: bool | None = None,
    netvlad_relu: bool | None = None,
    mlp_blocks: int | None = None,
    transformer_layers: int | None = None,
    transformer_size: int | None = None,
    transformer_heads: int | None = None,
    transformer_feed_forward: int | None = None,
    transformer_positions: bool | None = None,
    asymmetric_positive_gamma: float | None = None,
    asymmetric_negative_gamma: float | None = None,
    asymmetric_margin: float | None = None,
    agreement_weight: float | None = None,
    focal_gamma: float | None = None,
    hill_lambda: float | None = None,
    hill_margin: float | None = None,
    hill_gamma: float | None = None,
    hinge_margin: float | None = None,
    label_smoothing: float | None = None,
    adjustment_strength: float | None = None,
    class_counts: Sequence[int] | int | str | None = None,
    pairwise_margin: float | None = None,
    splc_threshold: float | None = None,
    splc_margin: float | None = None,
    splc_gamma: float | None = None,
    splc_start_step: int | None = None,
    unrated_weight: float | None = None,
    segment_classes: Sequence[int] | int | str | None = None,
    two_way_positive_temperature: float | None = None,
    two_way_negative_temperature: float | None = None,
    positive_weight: float | None = None,
    out: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
) -> FittedRun:
    """Trains a model in this process, as train.py does.

    None stands for an option that is not given. The hyper-parameters of a model of your own are options too: for mypy,
    give them as `**own`, where `own: dict[str, Any] = {"my_option": 3}`.

    Args:
      train_dir: folder of the run; by default a new one under runs/ (also out)
      callbacks: callbacks to add, by name (of an installed package, too) or package.module:Class, separated by
        commas; -name removes a default callback
      init_from: folder of a run to read the initial weights from, by the names of variables and classes
      rename: CSV file with the columns old,new: classes of --init_from that have another name now
      train_only: new: train only the weights of the classes that --init_from lacks
      export_dir: folder to which the trained model is exported as a SavedModel when training has ended
      log_dir: folder of the event files for TensorBoard; by default train_dir
      max_steps: step after which training ends, over all starts; 0: initial weights
      log_every_n_steps: steps between two lines in the log [10]
      save_summary_steps: steps between summaries for TensorBoard; also at the first step; 0: none [100]
      seed: seed of weights, sampling and the order of examples [0]
      train_data_pattern: TFRecord files (A,B,...) or a folder, local or gs:// [sample data] (also data)
      feature_names: features to read [all of yours; mean_rgb or rgb of YouTube-8M] [("mean_rgb", "mean_audio")]
      feature_sizes: number of values of each feature, in the same order [as in the data] [(1024, 128)]
      frame_features: the records hold a feature vector per frame, not only one per video [False]
      segment_labels: learn from the rated 5-second segments of frame records [False]
      num_classes: number of classes [as many as the vocabulary has, else 3862] [3862]
      vocabulary: CSV of the classes' names, with the columns index,name; by default vocabulary.csv beside the shards,
        or one or two folders above them
      max_frames: frames of a video that are read, from its start [300]
      batch_size: examples per tower and step [1024]
      num_readers: files that are read in parallel [8]
      parse_threads: number of batches parsed in parallel [set by the number of cores]
      prefetch: number of parsed batches that are kept ready for the next steps [set by the number of cores; 0 for
        whole videos of frames]
      num_epochs: passes over the data [5]
      reader: your own reader, for records of another layout: one of an installed package, by name, or
        package.module:Class [YouTube-8M's]
      cache: local folder that caches parsed records for later passes over them; auto: one in --cache_dir
      manifest: file with the record count of each shard (yt8m verify); by default manifest.json beside the shards
      max_bad_records: number of bad records to tolerate; the rest of the shard after a bad record is skipped, which
        the log reports [0]
      nan_policy: what to do with feature values that are NaN, infinite or beyond 1e16: fail, or set them to 0 and
        count them (refuse or zero) ["refuse"]
      shuffle_buffer: size of the shuffle buffer, in records [4096 videos, or 256 of frames]
      balance: read videos of rare classes more often: a class with n videos has the weight n^-balance; 0: read each
        video once per epoch [0.0]
      film_mean: give the model the mean over the whole video's frames beside each frame, also for a segment [False]
      segment_context: frames before and after a rated segment that the model sees too, as the means of windows of
        several lengths [of spans, if the model is chosen: those of five seconds, at least a segment] [0]
      model: one below, of a package, or module:Class [LogisticModel; yours: auto] ["LogisticModel"]
      label_loss: loss: one below, of a package, or module:Class ["CrossEntropyLoss"]
      class_weights: table with the columns class,weight: how much each class counts in the loss; a class without a
        row counts 1
      optimizer: the optimizer: one listed below, or package.module:Class ["AdamOptimizer"]
      base_learning_rate: the learning rate before any decay [0.01]
      learning_rate_schedule: how the learning rate falls: in steps, along half a cosine to 0, or not at all
        (exponential or cosine or constant) ["exponential"]
      learning_rate_decay: factor by which each decay multiplies the learning rate [0.95]
      learning_rate_decay_examples: examples between decays (cosine: until the rate is 0) [4000000]
      learning_rate_warmup_examples: examples during which the learning rate rises linearly from 0; 0: no warm-up [0]
      weight_decay: with AdamWOptimizer: each step subtracts this share of each weight matrix, times the learning rate
        [0.01]
      clip_gradient_norm: largest norm of a gradient; 0: no clipping [1.0]
      clip_by: what clip_gradient_norm limits: the norm of each variable's gradient, or of all gradients together
        (variable or global) ["variable"]
      accumulate_steps: number of batches whose mean gradient is applied in one optimizer step [1]
      regularization_penalty: weight of the regularization loss in the total [1.0]
      combine_gradients: how the gradients of the towers are combined; the published code takes the sum (mean or sum)
        ["mean"]
      moving_average_decay: decay of the moving averages of the weights, for eval and export; in step n at most (1 +
        n)/(10 + n); 0: none [0.0]
      num_gpu: towers: one per GPU, at most N; without a GPU N towers on the CPU [1]
      precision: dtype of matrix products (float32 or bfloat16 or float16) ["float32"]
      sync_batch_norm: compute the statistics of batch norm over all towers of this process, as if they were one tower
        [False]
      prefetch_to_device: copy the next step's batch to the towers' devices during the current step [False]
      xla: compile the step with XLA; fuses all ops but products; useful mainly on GPUs [False]
      log_device_placement: log which device each op runs on [False]
      profile: FIRST,LAST: the steps to trace for TensorBoard's profiler, such as 100,105
      save_checkpoint_steps: steps between checkpoints, besides those of save_checkpoint_minutes
      save_checkpoint_minutes: minutes between checkpoints [15.0]
      keep_checkpoints: number of newest checkpoints to keep, besides one per quarter of an hour; all keeps every
        checkpoint [5]
      exact_resume: save the position in the data too, so that a resumed run skips no example [False]
      export_model_steps: steps between exported models, besides that of the last step; none exports none, nor the
        last [1000]
      start_new_model: move an earlier run in train_dir aside and start a new one [False]
      sync_replicas: chief and workers take each step together, with the mean of their gradients [False]
      exchange: how the processes of a cluster share variables: parameter servers hold them, or each process holds all
        variables and the processes sum their gradients (chief and workers only) (parameter-servers or all-reduce)
        ["parameter-servers"]
      exchange_dtype: dtype in which --exchange=all-reduce sends gradients; bfloat16 halves the bytes that are sent
        (float32 or bfloat16) ["float32"]
      check_replicas_steps: steps after which --exchange=all-reduce compares the variables of all processes; 0 for
        never [1000]
      stall_timeout: seconds that a process of a cluster waits for the others before it fails [600.0]
      distill_from: the teacher's predictions for the training data: CSV of `VideoId,LabelConfidencePairs`
      teacher: the teacher itself: the folder of an evaluated run, or of an export
      distill_weight: weight w of the loss on the teacher's predictions; the label loss has 1 - w [0.5]
      augment_crop: smallest share of a video's frames that a random crop in time keeps; 1: no crop [1.0]
      augment_frame_dropout: probability with which a frame is left out; 0: no dropout [0.0]
      augment_noise: standard deviation of normal noise on dequantised features; 0: none [0.0]
      mixup: mix each video and its labels with another of the batch, by weights from Beta(mixup, mixup); 0: no mixing
        [0.0]
      eval_data_pattern: files to validate on while training; in a cluster its evaluator reads them
      eval_every_n_epochs: epochs between two validations [1]
      eval_every_n_steps: steps between two validations, in place of epochs
      eval_max_videos: largest number of videos to validate on: always the same ones, drawn by a hash of their ids
      best_metric: metric that decides which checkpoint is kept in best/: a name that yt8m eval prints, or
        package.module:Class ["GAP"]
      patience: training ends after this number of validations without a better one [no such end]
      cache_dir: local folder for copies of files in buckets; by default ~/.cache/yt8m
      stage_cache_bytes: limit on the bytes of copies of shards in cache_dir; those unused for longest are removed
        first [21474836480]
      gs_reading: how shards in buckets are read: copied to cache_dir ahead of time, or by TensorFlow itself (staged
        or direct) ["staged"]
      gs_retry_seconds: seconds for which a request to a bucket is retried [300.0]
      budget: seconds to choose a model for your own data and to train it [40 for up to 10,000 videos, then more]
      refit: train the chosen model on the split validate too, if there are fewer than 5000 videos [True]
      config: config.json of a run, whose options are taken over unless a flag is given
      trust_code: import the code that the run's config.json names, even if you did not train that run here [False]
      video_level_classifier_model: video-level model that is the classifier at the end (AttentionClusterModel:
        LogisticModel, AttentionLstmModel: LogisticModel, AttentionPoolingModel: MoeModel, BiLstmModel: MoeModel,
        DbofModel: MoeModel, GatedDbofModel: MoeModel, GruModel: MoeModel, LstmAttentionMaxModel: MoeModel, LstmModel:
        MoeModel, MixNeXtVladModel: LogisticModel, NeXtVladModel: LogisticModel, NetFvModel: MoeModel, NetRvladModel:
        MoeModel, NetVladModel: MoeModel, NetVlagdModel: MoeModel, ResidualMlpModel: MoeModel, SoftDbowModel:
        MoeModel, TransformerModel: MoeModel)
      hidden_sizes: units of the dense layers before the classifier; if empty, no layer
      drop_rate: dropout rate in training; the model drops before or after the attention (AttentionClusterModel: 0.0,
        AttentionLstmModel: 0.0, AttentiveProbeModel: 0.1, GatedMlpModel: 0.0, MixNeXtVladModel: 0.5, NeXtVladModel:
        0.5, ResidualMlpModel: 0.1, TransformerModel: 0.1)
      iterations: frames sampled from a video in training (AttentionClusterModel: 100, DbofModel: 30, GatedDbofModel:
        300, NetFvModel: 300, NetRvladModel: 300, NetVladModel: 300, NetVlagdModel: 300, SoftDbowModel: 300)
      sample_random_frames: sample single frames rather than consecutive ones (AttentionClusterModel: true, DbofModel:
        true, GatedDbofModel: true, NetFvModel: true, NetRvladModel: true, NetVladModel: true, NetVlagdModel: true,
        SoftDbowModel: true)
      attention_cluster_size: number of attention units on each feature (AttentionClusterModel: 32)
      input_transform: how features are transformed first; reverse_whitening needs the rgb features of YouTube-8M
        (AttentionClusterModel: l2_normalize, AttentionLstmModel: l2_normalize, AttentionPoolingModel: l2_normalize,
        AttentiveProbeModel: l2_normalize, BiLstmModel: l2_normalize, DbofModel: l2_normalize, DeepCombineChainModel:
        l2_normalize, FrameLevelLogisticModel: l2_normalize, GatedDbofModel: l2_normalize, GatedMlpModel:
        l2_normalize, GatedMoeModel: l2_normalize, GruModel: l2_normalize, LogisticModel: l2_normalize,
        LstmAttentionMaxModel: l2_normalize, LstmModel: l2_normalize, MixNeXtVladModel: reverse_whitening, MoeModel:
        l2_normalize, NeXtVladModel: reverse_whitening, NetFvModel: l2_normalize, NetRvladModel: l2_normalize,
        NetVladModel: l2_normalize, NetVlagdModel: l2_normalize, ResidualMlpModel: l2_normalize, SoftDbowModel:
        l2_normalize, TransformerModel: l2_normalize)
      lstm_cells: cells of each direction (AttentionLstmModel: 512, BiLstmModel: 1024, LstmAttentionMaxModel: 1024,
        LstmModel: 1024)
      lstm_layers: number of layers (AttentionLstmModel: 1, BiLstmModel: 2, LstmAttentionMaxModel: 1, LstmModel: 2)
      embedding_size: units of a tanh layer on each frame before the LSTM; 0: no layer (AttentionLstmModel: 0)
      attention_queries: number of attention queries (AttentionPoolingModel: 8)
      attention_size: number of features of a key and of a value (AttentionPoolingModel: 512)
      decoder_queries: queries of a decoder at the end, which groups of classes share; 0: none (AttentiveProbeModel:
        0, TransformerModel: 0)
      decoder_learns_queries: train the decoder's queries; as published they keep their random initial values
        (AttentiveProbeModel: false, TransformerModel: false)
      decoder_videos_at_once: with decoder_queries: videos of a batch that training computes at a time, and again for
        their gradient, to need less memory; 0: all at once (AttentiveProbeModel: 8, TransformerModel: 8)
      probe_size: number of features of a key and of a value (AttentiveProbeModel: 512)
      probe_heads: attention heads; must divide probe_size (AttentiveProbeModel: 8)
      l2_penalty: weight of the squared weights w_c (AttentiveProbeModel: 1e-08, DeepCombineChainModel: 1e-08,
        FrameLevelLogisticModel: 1e-08, GatedDbofModel: 1e-06, GatedMlpModel: 0.001, GatedMoeModel: 1e-08,
        LogisticModel: 1e-08, LstmAttentionMaxModel: 1e-08, MixNeXtVladModel: 1e-05, MoeModel: 1e-08, NeXtVladModel:
        1e-05, NetFvModel: 1e-06, NetRvladModel: 1e-06, NetVladModel: 1e-06, NetVlagdModel: 1e-06, SoftDbowModel:
        1e-06)
      decoder_feed_forward: with decoder_queries: units of the feed-forward part (AttentiveProbeModel: 2048)
      sequence_frames: number of frames that training reads: consecutive ones from a random start, or single ones; 0:
        all frames (BiLstmModel: 0, GruModel: 0, LstmModel: 0)
      all_layers: classify the final states of all layers, not only of the last one (BiLstmModel: false, GruModel:
        false, LstmModel: false)
      lstm_memory: classify the memory c of a layer too, besides its output h, as published (BiLstmModel: false,
        LstmModel: false)
      lstm_random_sequence: read sequence_frames single frames, drawn with replacement, in random order, not
        consecutive ones (BiLstmModel: false, LstmModel: false)
      lstm_kernel: kernel of the layers on a GPU: this package's loop, or cuDNN's; both use the same weights
        (BiLstmModel: loop, LstmModel: loop)
      batch_norm_decay: decay of the moving averages of batch normalisation; 0.9 to 0.99 for short runs (DbofModel:
        0.999, GatedDbofModel: 0.999, GatedMoeModel: 0.999, MixNeXtVladModel: 0.999, MoeModel: 0.999, NeXtVladModel:
        0.999, NetFvModel: 0.999, NetRvladModel: 0.999, NetVladModel: 0.999, NetVlagdModel: 0.999, ResidualMlpModel:
        0.999, SoftDbowModel: 0.999)
      dbof_add_batch_norm: batch normalisation rather than biases (DbofModel: true, GatedDbofModel: true,
        SoftDbowModel: true)
      dbof_cluster_size: units of the layer on each frame (DbofModel: 8192, GatedDbofModel: 4096, SoftDbowModel: 4096)
      dbof_hidden_size: units of the layer on the pooled frames (DbofModel: 1024, GatedDbofModel: 1024, SoftDbowModel:
        1024)
      dbof_pooling_method: how frames are pooled; none: each frame is classified, and the log-odds are averaged
        (DbofModel: max)
      dbof_activation: activation of both layers (DbofModel: sigmoid)
      deep_chain_layers: number of mixtures of experts before the last one (DeepCombineChainModel: 8)
      deep_chain_relu_cells: units that a mixture's predictions are reduced to (DeepCombineChainModel: 128)
      support_loss_percent: weight of the losses of all mixtures but the last (DeepCombineChainModel: 0.025)
      moe_num_mixtures: number of experts per class, besides the dummy that predicts 0 (DeepCombineChainModel: 2,
        GatedMoeModel: 2, LstmAttentionMaxModel: 8, MoeModel: 2)
      gating: context gating of the hidden layer (GatedDbofModel: false, NetFvModel: true, NetRvladModel: true,
        NetVladModel: true, NetVlagdModel: true, SoftDbowModel: false)
      gating_remove_diag: leave each feature (or class) out of the input of its own gate (GatedDbofModel: false,
        GatedMoeModel: false, MoeModel: false, NetFvModel: false, NetRvladModel: false, NetVladModel: false,
        NetVlagdModel: false, SoftDbowModel: false)
      input_batch_norm: batch normalisation of the frames before they are pooled, as published (GatedDbofModel: false,
        NetFvModel: false, NetRvladModel: false, NetVladModel: false, NetVlagdModel: false, SoftDbowModel: false)
      dbof_relu: hidden layer as published: batch norm and relu6; false: biases instead of both; not given: only batch
        norm (GatedDbofModel: None, SoftDbowModel: None)
      dbof_late_fusion: pool each feature by itself, as published; all but the first get an eighth of the clusters
        (GatedDbofModel: false, SoftDbowModel: false)
      softdbof_maxpool: describe a video by the largest assignment to each word too, besides the sum (GatedDbofModel:
        false, SoftDbowModel: false)
      mlp_hidden_size: units of every layer (GatedMlpModel: 256, ResidualMlpModel: 1024)
      mlp_layers: layers before the last one (GatedMlpModel: 2)
      input_limit: bound of an input after its transform, which outliers approach (GatedMlpModel: 4.0)
      moe_low_rank_gating: rank of the matrix W_g that chooses among the experts, as published; -1 or 0: full rank
        (GatedMoeModel: -1, MoeModel: -1)
      moe_prob_gating: multiply each prediction by a gate in 0..1 (GatedMoeModel: true, MoeModel: false)
      moe_prob_gating_input: input of the gates of the predictions: the predictions, or the features (GatedMoeModel:
        prob, MoeModel: prob)
      prob_gating_rank: rank of the matrix of the gates of the predictions; 0: full rank (GatedMoeModel: 0, MoeModel:
        0)
      gru_cells: cells of each layer (GruModel: 1200)
      gru_layers: number of layers (GruModel: 2)
      gru_random_sequence: read sequence_frames single frames, drawn with replacement, in random order, not
        consecutive ones (GruModel: false)
      l2_biases: regularise the biases too, as in the published NeXtVLAD (LogisticModel: false)
      lstm_attentions: number of attention units over the LSTM's outputs (LstmAttentionMaxModel: 8)
      attention_on_input: attention on the LSTM's input besides its output, as published (LstmAttentionMaxModel:
        false)
      nextvlad_cluster_size: number of clusters of the first feature; the others have half as many (MixNeXtVladModel:
        128, NeXtVladModel: 128)
      nextvlad_hidden_size: units of the hidden layer after the pooling (MixNeXtVladModel: 2048, NeXtVladModel: 2048)
      groups: number of groups of the first feature; the others have half as many (MixNeXtVladModel: 8, NeXtVladModel:
        8)
      expansion: factor by which the number of a frame's features is expanded (MixNeXtVladModel: 2, NeXtVladModel: 2)
      gating_reduction: factor by which the gate's inner layer is smaller than the hidden layer (MixNeXtVladModel: 8,
        NeXtVladModel: 8)
      as_published: details of the published code: no bias in the gate, no L2 on the hidden layer, its initial values
        (MixNeXtVladModel: false, NeXtVladModel: false)
      mix_number: number of NeXtVLAD branches that are mixed (MixNeXtVladModel: 3)
      cl_temperature: temperature T at which each branch is compared with the mixture (MixNeXtVladModel: 3.0)
      cl_lambda: weight of the branches' divergence from the mixture, times T^2 (MixNeXtVladModel: 1.0)
      cl_both_sides: as published: the divergence lacks the factor T^2, and the mixture learns from it too
        (MixNeXtVladModel: false)
      fv_cluster_size: number of clusters of the first feature; the others have half as many (NetFvModel: 128)
      fv_hidden_size: units of the hidden layer after the pooling (NetFvModel: 1024)
      fv_add_batch_norm: batch normalisation rather than biases (NetFvModel: true)
      fv_relu: hidden layer as published: batch norm and relu6; false: biases instead of both; not given: only batch
        norm (NetFvModel: None)
      fv_variances_as_whole: scale the second-order part as a whole to length 1, as published, not cluster by cluster
        first (NetFvModel: false)
      netvlad_cluster_size: number of clusters of the first feature; the others have half as many (NetRvladModel: 256,
        NetVladModel: 256, NetVlagdModel: 256)
      netvlad_hidden_size: units of the hidden layer after the pooling (NetRvladModel: 1024, NetVladModel: 1024,
        NetVlagdModel: 1024)
      netvlad_add_batch_norm: batch normalisation rather than biases (NetRvladModel: true, NetVladModel: true,
        NetVlagdModel: true)
      netvlad_relu: hidden layer as published: batch norm and relu6; false: biases instead of both; not given: only
        batch norm (NetRvladModel: None, NetVladModel: None, NetVlagdModel: None)
      mlp_blocks: residual blocks (ResidualMlpModel: 2)
      transformer_layers: number of layers (TransformerModel: 2)
      transformer_size: number of features of a frame inside the transformer (TransformerModel: 512)
      transformer_heads: attention heads; must divide transformer_size (TransformerModel: 8)
      transformer_feed_forward: units of the feed-forward part (TransformerModel: 2048)
      transformer_positions: add an encoding of each frame's position in time (TransformerModel: true)
      asymmetric_positive_gamma: g: the higher, the less a well-predicted label counts (AsymmetricLoss: 0.0)
      asymmetric_negative_gamma: h: the higher, the less a class counts that is no label and has a low prediction
        (AsymmetricLoss: 4.0)
      asymmetric_margin: m: a class that is no label counts only if its prediction exceeds this (AsymmetricLoss: 0.05)
      agreement_weight: extra weight of a (video, class) pair that is ranked wrongly in its batch (BatchAgreementLoss:
        0.1)
      focal_gamma: the higher, the less a well-predicted class counts; 0: cross-entropy (FocalLoss: 2.0)
      hill_lambda: l: the loss of a class without a label is highest where its prediction is 2 l / 3 (HillLoss: 1.5)
      hill_margin: m: what is subtracted from the logit of a label (HillLoss: 1.0)
      hill_gamma: g: the higher, the less a well-predicted label counts (HillLoss: 2.0)
      hinge_margin: labels should score at least this, other classes at most minus this (HingeLoss: 1.0)
      label_smoothing: share of a video's labels that is spread evenly over all classes (LabelSmoothingLoss: 0.1)
      adjustment_strength: t: 0 is cross-entropy; the higher, the higher rare classes rise (LogitAdjustmentLoss: 1.0)
      class_counts: number of training videos of each class; if not given, those of the vocabulary or of the data's
        manifest
      pairwise_margin: by how much a label's prediction should exceed that of any other class (PairwiseHingeLoss: 0.2)
      splc_threshold: t: a class with a higher prediction counts as a label (SPLCLoss: 0.6)
      splc_margin: m: what is subtracted from the logit of a label (SPLCLoss: 1.0)
      splc_gamma: g: the higher, the less a well-predicted pair counts (SPLCLoss: 2.0)
      splc_start_step: the step from which on labels are added; the paper starts after one epoch (SPLCLoss: 0)
      unrated_weight: weight of the mean loss of a segment's absent classes, taken as wrong (SegmentFineTuningLoss:
        0.1)
      segment_classes: classes that segments are rated for; if not given, the published 1000
      two_way_positive_temperature: T: the lower, the more the label with the lowest score counts (TwoWayLoss: 4.0)
      two_way_negative_temperature: S: the lower, the more the other class with the highest score counts (TwoWayLoss:
        1.0)
      positive_weight: cost of missing a label; predicting a wrong one costs 1 (WeightedCrossEntropyLoss: 2.0)

    Returns:
      How the training ended, where the run is, and its figures.

    Raises:
      UsageError: an option is wrong, as on the command line; or TF_CONFIG or CLUSTER_SPEC describes a cluster in which
        several processes train.
      RunError: the training failed; the message says why.
    """
