// 告警的中文。
import type { alertsEn } from "./alerts_en";
import type { Words } from "./en";

const n = (count: number) => new Intl.NumberFormat("zh-CN").format(count);

export const alertsZh: Words<typeof alertsEn> = {
  alerts: {
    title: "告警",
    open: "未结束",
    none: "没有未结束的告警：按下面的规则，一切正常。",
    unwatched: "没有服务端在查看告警。把什么事告诉谁写进一个文件，并把它交给每个服务端：",
    watched: (node) => `由服务端节点 ${node} 查看。`,
    pending: "暂不告诉",
    pendingHint: "这些情形成立，但持续得还不够久，尚未告诉任何人。",
    over: "最近结束的",
    overSince: "结束于",
    overNone: "最近没有告警结束。",
    rule: "规则",
    anyRule: "任何规则",
    noneOfRule: "没有属于此规则的。",
    since: "自",
    told: "最近告诉",
    notTold: "尚未告诉",
    what: "情形",
    of: "对象",
    cause: "原因",
    well: "已恢复",
    failedRun: "该次运行",
    runs: "它失败的运行",
    cancelledRuns: "它被取消的运行",
    planned: "它的计划时刻",
    workers: "该池的工作节点",
    lateJobs: "迟到的作业",
    clock: "存储的时钟",
    showAll: (count) => `显示全部 ${n(count)} 个`,
    more: "还有更多，未在此一一列出。",
    waiting: "等待发送的通知",
    waitingNone: "没有等待的：该告诉的，接收者都已收到。",
    waitingHint:
      "接收者没有以 2xx 答复的会再试，间隔越来越长，大约一天。每个接收者最多有 200 条等待。",
    receiver: "接收者",
    count: "通知",
    explained: "告诉什么，何时告诉",
    usually: "文件未另作规定时",
    toDo: "怎么办",
    rules: {
      failures: {
        title: "运行失败",
        when: "作业最近一次运行失败或部分失败。文字只有数字和编号不同的失败算一个告警。",
        usually: "失败一次后立刻",
        toDo: "阅读失败信息，消除原因，重试失败的分片。",
      },
      not_started: {
        title: "运行没有按时开始",
        when: "运行在最晚开始时间之前没有开始，因而被取消。",
        usually: "立刻",
        toDo: "查看该池是否有工作节点和空闲槽位。",
      },
      missed: {
        title: "错过了计划时刻",
        when: "有计划时刻不会再运行：超过了开始期限，或被补跑策略略过。",
        usually: "立刻",
        toDo: "必须运行的，用回填补上。",
      },
      late: {
        title: "计划时刻过去而未作决定",
        when: "计划时刻到了，却没有服务端决定如何处理。",
        usually: "1 分钟后",
        toDo: "查看每项职责是否都有所有者，存储是否答复得够快。",
      },
      no_success: {
        title: "太久没有成功",
        when: "文件中列出的作业已有规定的那么久没有成功，无论它运行了、在等待、被暂停还是不存在。",
        usually: "立刻；只看文件中列出的作业",
        toDo: "查看作业在做什么，是否已暂停。",
      },
      no_worker: {
        title: "节点池没有工作节点",
        when: "有分片在等待，而它的节点池没有连接任何工作节点。",
        usually: "2 分钟后",
        toDo: "为该节点池启动一个工作节点。",
      },
      clock_step: {
        title: "存储的时钟跳变",
        when: "存储的时钟向前跳变，不被相信：什么都不会触发。",
        usually: "立刻",
        toDo: "把时钟校正；如果它是对的，就接受它。",
      },
    },
  },
};
