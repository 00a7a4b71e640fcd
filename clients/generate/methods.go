package main

// An rpcMethod names a method of the daemon, with the Go types of its params and its result. "" is
// an object without fields.
type rpcMethod struct{ name, params, result string }

// rpcMethods lists the methods of package client/protocol, by the constant that names each.
var rpcMethods = []rpcMethod{
	{"MethodInfo", "", "protocol.DaemonInfo"},
	{"MethodPing", "", ""},
	{"MethodMetrics", "", "protocol.Metrics"},
	{"MethodHello", "protocol.HelloParams", "protocol.HelloReply"},
	{"MethodCreate", "protocol.CreateParams", "session.Info"},
	{"MethodList", "", "list"},
	{"MethodGet", "protocol.NameParams", "session.Info"},
	{"MethodResize", "protocol.ResizeParams", ""},
	{"MethodScreen", "protocol.NameParams", "session.Screen"},
	{"MethodReset", "protocol.EndParams", "session.Info"},
	{"MethodClose", "protocol.EndParams", ""},
	{"MethodSetFunctions", "protocol.FunctionsParams", ""},
	{"MethodListFunctions", "protocol.NameParams", "protocol.FunctionList"},
	{"MethodArguments", "protocol.ArgumentsParams", "protocol.ArgumentsPart"},
	{"MethodStart", "protocol.StartParams", "session.Reply"},
	{"MethodInput", "protocol.InputParams", "session.Reply"},
	{"MethodType", "protocol.TypeParams", "protocol.TypeReply"},
	{"MethodWait", "protocol.WaitParams", "session.Reply"},
	{"MethodInterrupt", "protocol.InterruptParams", "protocol.InterruptReply"},
	{"MethodGrant", "protocol.GrantParams", ""},
	{"MethodAnswerPermission", "protocol.AnswerPermissionParams", ""},
	{"MethodComplete", "protocol.QueryParams", "session.Completion"},
	{"MethodParse", "protocol.ParseParams", "protocol.ParseReply"},
	{"MethodVariables", "protocol.NameParams", "session.Variables"},
	{"MethodInspect", "protocol.QueryParams", "session.Inspection"},
	{"MethodTablePage", "protocol.TablePageParams", "session.TablePage"},
	{"MethodComms", "protocol.CommsParams", "session.CommChanges"},
	{"MethodDestinations", "protocol.NameParams", "protocol.Destinations"},
	{"MethodVisibleHome", "protocol.NameParams", "session.Visibility"},
	{"MethodOutput", "protocol.OutputParams", "session.Output"},
	{"MethodRead", "protocol.ReadParams", "session.EventPage"},
	{"MethodOutline", "protocol.OutlineParams", "session.TurnSummaries"},
	{"MethodSearch", "protocol.SearchParams", "session.SearchResult"},
	{"MethodBlob", "protocol.BlobParams", "session.BlobPart"},
	{"MethodFiles", "protocol.FilesParams", "session.FileList"},
	{"MethodFile", "protocol.FileParams", "session.FilePart"},
	{"MethodPutFile", "protocol.PutFileParams", "session.PutProgress"},
	{"MethodRemoveFile", "protocol.RemoveFileParams", ""},
	{"MethodListCrashed", "", "protocol.CrashedSessions"},
	{"MethodLibrary", "protocol.LibraryParams", "protocol.Library"},
	{"MethodTakeWriteLock", "protocol.WriteLockParams", ""},
	{"MethodReleaseWriteLock", "protocol.WriteLockParams", ""},
	{"MethodReadCursor", "protocol.ReadCursorParams", "protocol.ReadCursor"},
	{"MethodClients", "protocol.NameParams", "protocol.ClientList"},
	{"MethodDetach", "protocol.DetachParams", ""},
	{"MethodSubscribe", "protocol.SubscribeParams", "protocol.SubscribeReply"},
	{"MethodPause", "protocol.SubscriptionParams", "protocol.SubscribeReply"},
	{"MethodResume", "protocol.SubscriptionParams", "protocol.SubscribeReply"},
	{"MethodUnsubscribe", "protocol.SubscriptionParams", ""},
}

// rpcNotifications are sent by the daemon.
var rpcNotifications = []rpcMethod{
	{"MethodSnapshot", "protocol.Snapshot", ""},
	{"MethodEvent", "protocol.LiveEvent", ""},
	{"MethodChange", "protocol.ChangeNotice", ""},
	{"MethodEnded", "protocol.SubscriptionEnd", ""},
	{"MethodProgress", "protocol.PreparationProgress", ""},
	{"MethodTurnAccepted", "protocol.TurnAccepted", ""},
}

// rpcRequests are requests that the daemon sends, and a client answers.
var rpcRequests = []rpcMethod{
	{"MethodCall", "protocol.FunctionCall", "protocol.FunctionResult"},
}

// renamedTypes maps types to the type that writes their JSON.
var renamedTypes = map[string]string{
	"session.Info":         "session.infoJSON",
	"session.Reply":        "session.replyJSON",
	"timeline.TurnSummary": "timeline.summaryJSON",
}

// typeNames has the names of types in the schema and in other languages, where the Go name alone is
// unclear or taken.
var typeNames = map[string]string{
	"protocol.DaemonInfo":    "Daemon",
	"protocol.SessionLimits": "SessionLimits",
	"session.infoJSON":       "Session",
	"session.replyJSON":      "Reply",
	"timeline.summaryJSON":   "TurnSummary",
	"event.base64JSON":       "Base64",
	"session.Kind":           "ErrorKind",
	"session.Variables":      "Variables",
	"list":                   "SessionList",
}

// handWrittenKinds has types whose JSON is not described by a struct.
var handWrittenKinds = map[string]typeForm{
	"session.State":   {enum: []string{"preparing", "starting", "idle", "running", "waiting", "stopping", "ended"}},
	"event.Seq":       {basic: integer},
	"time.Time":       {basic: text},
	"json.RawMessage": {basic: anyValue},
	"event.Event":     {object: eventUnion},
}
